//! Asks `coffer-aws` (the folder `helpers/` of the repository), which finds AWS credentials and
//! signs with them.
//!
//! One process for each master, from the first question on: it keeps credentials that were lent for
//! a time, so that not every call to the KMS is also one to whoever lends them. It ends with its
//! standard input, and so with this process, however that ends. An answer has a deadline and a
//! bound; a process that keeps neither, or that had nothing to give, is ended, and the next
//! question starts another.

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use coffer_process::helper;
use parking_lot::Mutex;
use zeroize::Zeroizing;

use super::question::{Answer, Failure, FailureKind, MAX_LINE, Question, Unsigned, What};
use crate::secret_text::SecretText;

const PROGRAM: &str = "coffer-aws";
/// Beyond the time that it was given, for starting and for its words on why it took so long.
const GRACE: Duration = Duration::from_secs(1);
/// The headers that a signature consists of.
const HEADERS: [&str; 3] = ["authorization", "x-amz-date", "x-amz-security-token"];

/// The program, for the credentials of one profile.
pub(super) struct Helper {
    program: PathBuf,
    profile: Option<String>,
    /// Questions are asked one at a time: each takes far less than what is then asked of the KMS.
    running: Mutex<Option<Running>>,
}

impl Helper {
    /// `profile`: that the policy names. Nothing is started yet.
    pub(super) fn new(profile: Option<String>) -> Self {
        Self {
            program: helper::beside(PROGRAM),
            profile,
            running: Mutex::new(None),
        }
    }

    /// The region that is set up here, if there is one.
    pub(super) fn region(&self, within: Duration) -> Result<Option<String>, Failure> {
        match self.ask(What::Region, within)? {
            Answer::Region(region) => Ok(region),
            _ => Err(self.malformed()),
        }
    }

    /// The secrets that stand in the environment and in the shared files.
    pub(super) fn secrets(&self, within: Duration) -> Result<Vec<SecretText>, Failure> {
        match self.ask(What::Secrets, within)? {
            Answer::Secrets(secrets) => Ok(secrets),
            _ => Err(self.malformed()),
        }
    }

    /// The headers to add to a request.
    pub(super) fn sign(
        &self,
        request: Unsigned,
        within: Duration,
    ) -> Result<Vec<(&'static str, SecretText)>, Failure> {
        let Answer::Signed(given) = self.ask(What::Sign(request), within)? else {
            return Err(self.malformed());
        };
        let mut headers: Vec<(&'static str, SecretText)> = Vec::new();
        for (name, value) in given {
            let known = HEADERS.into_iter().find(|known| *known == name);
            let known = known.filter(|known| headers.iter().all(|(name, _)| name != known));
            headers.push((known.ok_or_else(|| self.malformed())?, value));
        }
        match headers.iter().any(|(name, _)| *name == "authorization") {
            true => Ok(headers),
            false => Err(self.malformed()),
        }
    }

    /// Lets go of what it keeps: the KMS does not take it.
    pub(super) fn forget(&self) {
        *self.running.lock() = None;
    }

    fn ask(&self, what: What, within: Duration) -> Result<Answer, Failure> {
        let end = Instant::now() + within;
        let mut running = self
            .running
            .try_lock_for(within)
            .ok_or_else(|| Failure::away("others wait for credentials"))?;
        let left = end.saturating_duration_since(Instant::now());
        let question = Question {
            profile: self.profile.clone(),
            within: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            what,
        };
        // One that ended since (somebody killed it) has an heir.
        let alive = running.take().and_then(Running::if_idle);
        let mut process = match alive {
            Some(process) => process,
            None => self.start()?,
        };
        let answer = process
            .ask(&question, left.saturating_add(GRACE))
            .map_err(|broken| self.failed(&broken))?;
        match answer {
            Answer::Failed(failure) if failure.kind == FailureKind::Away => Err(failure),
            Answer::Failed(failure) => {
                *running = Some(process);
                Err(failure)
            }
            answer => {
                *running = Some(process);
                Ok(answer)
            }
        }
    }

    fn start(&self) -> Result<Running, Failure> {
        let mut command = Command::new(&self.program);
        // A group of its own, which it ends with itself: a profile may name a program to run.
        command
            .env_clear()
            // No passphrase of Coffer's, and no proxy.
            .envs(helper::aws_environment(env::vars_os(), &[]))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // Whose HOME is not set has one all the same.
        if let (None, Some(home)) = (env::var_os("HOME"), env::home_dir()) {
            command.env("HOME", home);
        }
        Running::start(&mut command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::settings(format!(
                "{PROGRAM}, which finds AWS credentials, is not at {}: install it with Coffer's \
                    other programs",
                self.program.display()
            )),
            _ => Failure::settings(format!("{}: {error}", self.program.display())),
        })
    }

    fn failed(&self, broken: &Broken) -> Failure {
        match broken {
            Broken::Silent => Failure::away("no credentials in time"),
            Broken::Ended => Failure::away(format!("{} ended", self.program.display())),
            Broken::Malformed => self.malformed(),
        }
    }

    fn malformed(&self) -> Failure {
        Failure::settings(format!("{}: malformed answer", self.program.display()))
    }
}

/// A process that answers.
struct Running {
    child: Child,
    /// None once it is to end.
    stdin: Option<ChildStdin>,
    answers: mpsc::Receiver<Zeroizing<Vec<u8>>>,
}

/// Why a process is of no more use.
#[derive(Debug)]
enum Broken {
    Silent,
    Ended,
    Malformed,
}

impl Running {
    fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = helper::start(command)?;
        let (sender, answers) = mpsc::channel();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        thread::spawn(move || {
            let mut stdout = stdout.map(BufReader::new);
            while let Some(line) = stdout.as_mut().and_then(line_of) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            stdin,
            answers,
        })
    }

    /// Itself, if it lives and has said nothing unasked.
    fn if_idle(mut self) -> Option<Self> {
        let quiet = matches!(self.answers.try_recv(), Err(mpsc::TryRecvError::Empty));
        (quiet && matches!(self.child.try_wait(), Ok(None))).then_some(self)
    }

    fn ask(&mut self, question: &Question, patience: Duration) -> Result<Answer, Broken> {
        let mut line = serde_json::to_vec(question).map_err(|_| Broken::Malformed)?;
        line.push(b'\n');
        if u64::try_from(line.len()).unwrap_or(u64::MAX) > MAX_LINE {
            return Err(Broken::Malformed);
        }
        // It has read the questions before this one, so that a pipe's buffer takes all of it.
        let stdin = self.stdin.as_mut().ok_or(Broken::Ended)?;
        stdin
            .write_all(&line)
            .and_then(|()| stdin.flush())
            .map_err(|_| Broken::Ended)?;
        match self.answers.recv_timeout(patience) {
            Ok(line) => serde_json::from_slice(&line).map_err(|_| Broken::Malformed),
            Err(RecvTimeoutError::Timeout) => Err(Broken::Silent),
            Err(RecvTimeoutError::Disconnected) => Err(Broken::Ended),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The end of its input ends it and what it runs. Nothing more can be done about one that
        // cannot be killed.
        self.stdin = None;
        let _ = helper::ended(&mut self.child, GRACE);
    }
}

/// A whole line; none at the end, and where one is too long.
fn line_of(from: &mut BufReader<ChildStdout>) -> Option<Zeroizing<Vec<u8>>> {
    // Room for all of it at once: growing would leave a copy behind.
    let mut line = Zeroizing::new(Vec::with_capacity(usize::try_from(MAX_LINE).ok()?));
    from.take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
    (line.last() == Some(&b'\n')).then_some(line)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A program of `sh` in the helper's place.
    fn of(script: &str) -> (tempfile::TempDir, Helper) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let helper = Helper {
            program,
            ..Helper::new(Some("work".to_owned()))
        };
        (folder, helper)
    }

    fn signed(helper: &Helper) -> Result<Vec<(&'static str, SecretText)>, Failure> {
        let request = Unsigned {
            service: "kms".to_owned(),
            region: "eu-west-1".to_owned(),
            method: "POST".to_owned(),
            url: "https://127.0.0.1/".to_owned(),
            headers: vec![("x-amz-target".to_owned(), "TrentService.Decrypt".to_owned())],
            digest: "00".repeat(32),
        };
        helper.sign(request, MINUTE)
    }

    #[test]
    fn one_process_answers_question_after_question() {
        let (_folder, helper) = of(
            r#"while read question; do echo '{"region":"'$$-$(echo "$question" | wc -c)'"}'; done"#,
        );
        let first = helper.region(MINUTE).unwrap().unwrap();
        assert_eq!(helper.region(MINUTE).unwrap().unwrap(), first);
        helper.forget();
        let other = helper.region(MINUTE).unwrap().unwrap();
        assert_ne!(other.split('-').next(), first.split('-').next());
    }

    #[test]
    fn it_ends_with_its_input() {
        let (folder, helper) = of(
            r#"cd "$(dirname "$0")"; while read question; do echo '{"region":null}'; done
            echo > ended"#,
        );
        assert_eq!(helper.region(MINUTE).unwrap(), None);
        drop(helper);
        assert!(folder.path().join("ended").exists());
    }

    #[test]
    fn one_that_is_missing_is_named() {
        let helper = Helper {
            program: "/nowhere/coffer-aws".into(),
            ..Helper::new(None)
        };
        let failure = helper.region(MINUTE).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Settings);
        assert!(
            failure.message.contains("is not at /nowhere/coffer-aws"),
            "{failure:?}"
        );
    }

    #[test]
    fn one_that_breaks_is_followed_by_another() {
        // Every second one answers.
        let (_folder, helper) = of(r#"cd "$(dirname "$0")"; read question
            if rm here; then echo '{"region":"r"}'; cat; else echo > here; fi"#);
        for _ in 0..2 {
            let failure = helper.region(MINUTE).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Away);
            assert_eq!(helper.region(MINUTE).unwrap().as_deref(), Some("r"));
            helper.forget();
        }
    }

    #[test]
    fn one_that_is_silent_is_ended_in_time() {
        let (_folder, helper) = of("read question; exec sleep 600");
        let start = Instant::now();
        let failure = helper.region(Duration::from_millis(100)).unwrap_err();
        assert_eq!(failure, Failure::away("no credentials in time"));
        assert!(start.elapsed() < MINUTE);
    }

    #[test]
    fn what_it_cannot_do_is_its_own_word_and_whether_to_wait() {
        let (_folder, helper) = of(
            r#"read a; echo '{"failed":{"kind":"settings","message":"no"}}'
            read a; echo '{"failed":{"kind":"away","message":"later"}}'; cat"#,
        );
        assert_eq!(signed(&helper).err(), Some(Failure::settings("no")));
        assert_eq!(signed(&helper).err(), Some(Failure::away("later")));
        assert_eq!(
            signed(&helper).err(),
            Some(Failure::settings("no")),
            "another one"
        );
    }

    #[test]
    fn only_a_signature_is_taken_for_one() {
        for (answer, good) in [
            (
                r#"{"signed":[["authorization","a"],["x-amz-date","d"]]}"#,
                true,
            ),
            (r#"{"signed":[]}"#, false),
            (r#"{"signed":[["x-amz-date","d"]]}"#, false),
            (
                r#"{"signed":[["authorization","a"],["authorization","b"]]}"#,
                false,
            ),
            (
                r#"{"signed":[["authorization","a"],["host","elsewhere"]]}"#,
                false,
            ),
            (r#"{"signed":[["authorization","a","b"]]}"#, false),
            (r#"{"region":"eu-west-1"}"#, false),
            (
                r#"{"failed":{"kind":"settings","message":"no","more":1}}"#,
                false,
            ),
            ("", false),
            ("nonsense", false),
        ] {
            let (_folder, helper) = of(&format!("read question; echo '{answer}'; cat"));
            match signed(&helper) {
                Ok(headers) => assert!(good && headers.len() == 2, "{answer}"),
                Err(failure) => {
                    assert!(
                        !good && failure.message.contains("malformed answer"),
                        "{failure:?}"
                    );
                }
            }
        }
        let (_folder, helper) = of("read question; head -c 100000 /dev/zero | tr '\\0' ' '; cat");
        assert!(signed(&helper).err().unwrap().message.ends_with(" ended"));
    }

    #[test]
    fn what_is_said_unasked_is_no_answer_to_the_next_question() {
        let (_folder, helper) =
            of(r#"read question; echo '{"region":"r"}'; echo '{"region":"s"}'; cat"#);
        assert_eq!(helper.region(MINUTE).unwrap().as_deref(), Some("r"));
        let (start, mut process) = (Instant::now(), helper.running.lock().take());
        while let Some(running) = process {
            assert!(start.elapsed() < MINUTE, "it passes for idle");
            thread::sleep(Duration::from_millis(10));
            process = running.if_idle();
        }
    }
}
