//! Compiles `proto/` with protox, so that no protoc is needed on the machine.

use std::{env, error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../../../proto");
    let files = [
        "coffer/plan.proto",
        "coffer/storage.proto",
        "coffer/wire/client.proto",
        "coffer/wire/executors.proto",
        "coffer/wire/results.proto",
        "coffer/wire/sealed.proto",
        "coffer/wire/stages.proto",
        "coffer/wire/tables.proto",
        "coffer/wire/task.proto",
        "coffer/wire/writes.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed={}", root.join(file).display());
    }
    let descriptors = protox::compile(files, [&root])?;
    prost_build::Config::new()
        .bytes([".coffer.wire", ".coffer.storage"])
        .compile_fds(descriptors)?;
    Ok(())
}
