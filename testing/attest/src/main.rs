//! `coffer-attest-emulated`: see the crate's README.

use std::{io::Read, process::ExitCode};

use coffer_verifiers::{Root, answer_under};

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
    // Who asks clears the environment: the roots are beside this program.
    let program = std::env::current_exe()?;
    let folder = program.parent().ok_or("this program is in no folder")?;
    let root = Root::new(
        "Emulated",
        &std::fs::read(folder.join("ark.pem"))?,
        &std::fs::read(folder.join("ask.pem"))?,
    )?;
    let mut question = Vec::new();
    std::io::stdin().read_to_end(&mut question)?;
    let answer = answer_under(&[root], &serde_json::from_slice(&question)?)?;
    println!("{}", serde_json::to_string(&answer)?);
    Ok(())
}
