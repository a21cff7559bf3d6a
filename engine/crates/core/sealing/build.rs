//! Says aloud that a build is an unsealed one. Nothing is generated.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_UNSEALED").is_some() {
        println!(
            "cargo::warning=UNSAFE: this build seals nothing (feature `unsealed`); for benchmarks \
                on public data only"
        );
    }
}
