//! Test code: what the parsers of host bytes do with hostile bytes.
//!
//! Each [`Target`] is one function over bytes. The same functions run under libFuzzer (`make fuzz`,
//! the folder `fuzz/`) and in this crate's smoke test, which `make test` runs: over the committed
//! corpus, and over seeded mutations of it. Sealed inputs come in both ways: as raw bytes, which
//! authentication refuses, and as a plaintext that the target seals itself, as a peer that is
//! authentic and dishonest (or a defect of ours) would. What is found is a panic, an abort, or more
//! memory at once than the target's stated bound. No program links this crate.

// A fuzz target has nobody to hand an error of its own set-up to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod corpus;
mod fixture;
mod memory;
mod mutate;
mod targets;

pub use corpus::{Case, committed, corpus_folder, write};
pub use mutate::{Random, mutate};
pub use targets::targets;

/// What became of an input: `ok`, or the name of the error.
pub type Outcome = String;

/// A named input for the corpus.
pub struct Seed {
    /// Words with underscores.
    pub name: &'static str,
    /// The input.
    pub bytes: Vec<u8>,
}

/// One parser, or one way into it.
pub struct Target {
    /// Also the corpus's folder.
    pub name: &'static str,
    /// What it covers, in a few words.
    pub about: &'static str,
    /// Bytes of memory that an input of so many bytes may claim at once.
    pub memory: fn(usize) -> usize,
    /// Mutations in the smoke run.
    pub smoke: u32,
    /// Takes the input. Panics only if that is a finding.
    pub run: fn(&[u8]) -> Outcome,
    /// Inputs that the corpus is made of.
    pub seeds: fn() -> Vec<Seed>,
}

impl Target {
    /// Runs an input and checks how much memory it claimed.
    ///
    /// # Panics
    /// When the target does, or when the input claims more than its bound.
    pub fn check(&self, input: &[u8]) -> Outcome {
        let limit = (self.memory)(input.len());
        let watch = memory::Watch::start();
        let outcome = (self.run)(input);
        let claimed = watch.claimed();
        assert!(
            claimed <= limit,
            "{}: {} bytes of input claimed {claimed} bytes of memory, {limit} are allowed \
                ({outcome})",
            self.name,
            input.len(),
        );
        outcome
    }
}

/// For a libFuzzer program: runs an input of the target of this name.
///
/// # Panics
/// Without such a target, and on a finding.
pub fn fuzz(name: &str, input: &[u8]) {
    let target = targets().into_iter().find(|target| target.name == name);
    target.expect("a target of this name").check(input);
}

/// Before the first input. libFuzzer's own panic hook ends the process at once, also for those
/// panics of the `parquet` crate that are caught and become errors; a panic that is caught nowhere
/// still ends it.
pub fn prepare() {
    std::panic::set_hook(Box::new(|panic| {
        let position = panic
            .location()
            .map_or_else(String::new, ToString::to_string);
        if !position.contains("/parquet-") && !position.contains("/arrow-") {
            eprintln!("{panic}");
        }
    }));
    fixture::warm();
}

/// The name of an error's variant.
fn variant(error: &impl std::fmt::Debug) -> Outcome {
    let text = format!("{error:?}");
    // What is wrong with a file is said by the format's error inside of the catalog's.
    let text = text.strip_prefix("Format(").unwrap_or(&text);
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn outcome<T, E: std::fmt::Debug>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => variant(&error),
    }
}
