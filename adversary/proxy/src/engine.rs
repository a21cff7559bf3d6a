//! The real engine behind the proxy: started, listened to, ended.

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// A running engine. Its standard input is its lifeline, so it ends with this process.
pub struct Engine {
    child: Mutex<Child>,
    id: u32,
    panics: Arc<Mutex<Vec<String>>>,
}

impl Engine {
    /// Starts `program` with these arguments. Gives the engine, and its standard output with its
    /// ready line not yet read.
    pub fn start(
        program: &Path,
        arguments: &[OsString],
    ) -> io::Result<(Self, BufReader<ChildStdout>)> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("the engine has no output");
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let panics = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&panics);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if line.contains("panicked") {
                    seen.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(line.clone());
                }
                eprintln!("{line}");
            }
        });
        let id = child.id();
        let engine = Self {
            child: Mutex::new(child),
            id,
            panics,
        };
        Ok((engine, BufReader::new(stdout)))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether it runs.
    pub fn is_alive(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(child.try_wait(), Ok(None))
    }

    /// What its log has of panics since the last call.
    pub fn panics(&self) -> Vec<String> {
        std::mem::take(&mut *self.panics.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten()
    }

    /// Kills it.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}
