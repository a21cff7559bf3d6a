#![no_main]
libfuzzer_sys::fuzz_target!(init: coffer_fuzz_targets::prepare(), |input: &[u8]|
    coffer_fuzz_targets::fuzz("scan_sealed", input));
