//! The committed corpus: `fuzz/corpus/<target>/<case>.<outcome>`, each file one input and, in its
//! name, what must become of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Outcome, Target};

/// An input of the corpus.
pub struct Case {
    /// The file's name without its outcome.
    pub name: String,
    /// What must become of it.
    pub outcome: Outcome,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Where the corpus is.
pub fn corpus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

/// The committed inputs of a target, by name.
///
/// # Panics
/// When a file's name has no outcome, or the folder cannot be read.
pub fn committed(target: &Target) -> Vec<Case> {
    let folder = corpus_folder().join(target.name);
    let mut cases: Vec<Case> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap();
            let (name, outcome) = file.split_once('.').expect("a file is named case.outcome");
            Case {
                name: name.to_owned(),
                outcome: outcome.to_owned(),
                bytes: fs::read(&path).unwrap(),
            }
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

/// Makes a target's corpus anew from its seeds. Files that were put there by hand (findings) have
/// names of their own, which begin with `found_`, and stay.
///
/// # Panics
/// When the folder cannot be written.
pub fn write(target: &Target) {
    let folder = corpus_folder().join(target.name);
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if !path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("found_")
        {
            fs::remove_file(path).unwrap();
        }
    }
    for seed in (target.seeds)() {
        let outcome = target.check(&seed.bytes);
        fs::write(folder.join(format!("{}.{outcome}", seed.name)), seed.bytes).unwrap();
    }
}
