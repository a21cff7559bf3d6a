//! Every target over its committed corpus, whose outcomes must be those that the files' names say,
//! and over seeded mutations of it. `COFFER_FUZZ_SEED` takes another seed.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use coffer_fuzz_targets::{Random, committed, mutate, prepare, targets};

/// Memory is counted for the whole process, so targets run one after the other.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    prepare();
    one
}

fn seed() -> u64 {
    std::env::var("COFFER_FUZZ_SEED").map_or(1, |text| {
        text.parse().expect("COFFER_FUZZ_SEED is a number")
    })
}

#[test]
fn the_corpus_comes_out_as_its_names_say() {
    let _one = alone();
    let (mut all, mut refused, mut wrong) = (0, 0, Vec::new());
    for target in targets() {
        for case in committed(&target) {
            let outcome = target.check(&case.bytes);
            all += 1;
            refused += usize::from(case.outcome != "ok");
            if outcome != case.outcome {
                wrong.push(format!(
                    "{}/{}: {outcome}, not {}",
                    target.name, case.name, case.outcome
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        refused * 2 > all,
        "most vectors must fail: {refused} of {all}"
    );
}

#[test]
fn mutations_end_in_an_outcome() {
    let _one = alone();
    // Where an input is kept while it runs: what is left there after an abort is the finding.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-smoke-input");
    let running = File::create(&path).unwrap();
    for target in targets() {
        let corpus = committed(&target);
        let mut random = Random::new(seed(), target.name);
        let began = std::time::Instant::now();
        for _ in 0..target.smoke {
            let case = &corpus[random.below(corpus.len())];
            let other = &corpus[random.below(corpus.len())];
            let input = mutate(&case.bytes, &other.bytes, &mut random);
            running.write_all_at(&input, 0).unwrap();
            running.set_len(input.len() as u64).unwrap();
            target.check(&input);
        }
        println!(
            "{}: {} mutations in {:?}",
            target.name,
            target.smoke,
            began.elapsed()
        );
    }
    fs::remove_file(&path).unwrap();
}

/// The programs of libFuzzer are built with other flags, in a workspace of their own, which nothing
/// compiles but `make fuzz`: so each but that of `quotes` is nothing but its target's name.
#[test]
fn each_target_has_a_program() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let mut programs: BTreeSet<String> = fs::read_dir(fuzz.join("fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(programs.remove("quotes.rs"));
    for target in targets() {
        let (name, file) = (target.name, format!("{}.rs", target.name));
        let text = fs::read_to_string(fuzz.join("fuzz_targets").join(&file)).unwrap();
        let expected = format!(
            "#![no_main]\nlibfuzzer_sys::fuzz_target!(init: coffer_fuzz_targets::prepare(), \
             |input: &[u8]|\n    coffer_fuzz_targets::fuzz(\"{name}\", input));\n"
        );
        assert_eq!(text, expected, "{file}");
        assert!(manifest.contains(&format!(
            "name = \"{name}\"\npath = \"fuzz_targets/{file}\""
        )));
        assert!(programs.remove(&file));
    }
    assert!(programs.is_empty(), "of no target: {programs:?}");
}

/// Makes the committed corpus anew: `cargo test --release --workspace --test smoke -- --ignored
/// write_the_corpus`.
#[test]
#[ignore = "writes into the source tree"]
fn write_the_corpus() {
    let _one = alone();
    for target in targets() {
        coffer_fuzz_targets::write(&target);
    }
}
