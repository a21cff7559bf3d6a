//! `coffer-aws`: reads questions on standard input, a line each, and answers them on standard
//! output in turn. See the crate coffer-aws-helper.

use std::{
    io::{self, BufRead, Read, Write},
    process::{self, ExitCode},
    thread,
};

use coffer_aws_helper::Signer;
use coffer_kms::aws::{Answer, Failure, MAX_LINE};
use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};
use tokio::{runtime::Builder, sync::mpsc};
use zeroize::Zeroizing;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    coffer_process::memory::forbid_core_dumps()?;
    let mut questions = questions()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signer = Signer::default();
        while let Some(line) = questions.recv().await {
            let answer = match serde_json::from_slice(&line) {
                Ok(question) => signer.answer(question).await,
                Err(_) => Answer::Failed(Failure::settings("the question is malformed")),
            };
            // Room for all of it at once: growing would leave a copy behind.
            let mut line =
                Zeroizing::new(Vec::with_capacity(usize::try_from(MAX_LINE).unwrap_or(0)));
            serde_json::to_writer(&mut *line, &answer)?;
            line.push(b'\n');
            let mut stdout = io::stdout().lock();
            stdout.write_all(&line)?;
            stdout.flush()?;
        }
        Ok(())
    })
}

/// The lines of standard input. Its end ends this process at once, whatever it waits for: whoever
/// asked is gone, or does not want the answer any more.
fn questions() -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(1);
    thread::Builder::new()
        .name("lifeline".to_owned())
        .spawn(move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut line = Vec::new();
                let read = (&mut stdin).take(MAX_LINE).read_until(b'\n', &mut line);
                if read.is_err()
                    || line.last() != Some(&b'\n')
                    || sender.blocking_send(line).is_err()
                {
                    end();
                }
            }
        })?;
    Ok(receiver)
}

/// Ends this process and what it started (a profile's `credential_process`), which are one group
/// where Coffer started it.
fn end() -> ! {
    if getpgrp() == getpid() {
        // This process too.
        let _ = kill_current_process_group(Signal::KILL);
    }
    process::exit(0)
}
