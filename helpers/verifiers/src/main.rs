//! `coffer-attest`: reads a question on standard input, answers it on standard output. See the
//! crate coffer-attest.

use std::{
    io::{Read, Write},
    process::ExitCode,
};

/// A report in hexadecimal digits, and a policy.
const MAX_QUESTION: u64 = 4 << 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut question = Vec::new();
    std::io::stdin()
        .take(MAX_QUESTION)
        .read_to_end(&mut question)?;
    let answer = coffer_verifiers::answer(&serde_json::from_slice(&question)?)?;
    std::io::stdout().write_all(&serde_json::to_vec(&answer)?)?;
    Ok(())
}
