//! A program that is asked one question: it reads it on its standard input, answers on its standard
//! output, and ends.
//!
//! What is large or talks to the world stays out of the process that asks. The answer is not
//! trusted to come, to end, or to be of any length: who asks says how long it waits, and how many
//! bytes it reads. Nor does it get the environment that this process has, where a passphrase or a
//! PIN may stand under any name.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Read, Write},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

/// What a program that speaks to AWS gets of the environment, beside every name that begins with
/// `AWS_`: where the shared files are, where the programs are that a profile may name, and whose
/// certificates the system trusts.
const ENVIRONMENT: [&str; 4] = ["HOME", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE"];
/// How proxies are named, for programs that go through them.
pub const PROXIES: [&str; 8] = [
    "ALL_PROXY",
    "all_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "NO_PROXY",
    "no_proxy",
];

/// The program of this name that was installed beside this one.
pub fn beside(name: &str) -> PathBuf {
    env::current_exe().unwrap_or_default().with_file_name(name)
}

/// What of these variables a program that speaks to AWS is to know, and these more.
pub fn aws_environment(
    all: impl Iterator<Item = (OsString, OsString)>,
    more: &[&str],
) -> impl Iterator<Item = (OsString, OsString)> {
    cloud_environment(all, &["AWS_"], more)
}

/// What of these variables a program that speaks to a cloud is to know: those whose names begin so,
/// and these more.
pub fn cloud_environment(
    all: impl Iterator<Item = (OsString, OsString)>,
    prefixes: &[&str],
    more: &[&str],
) -> impl Iterator<Item = (OsString, OsString)> {
    let named = |name: &OsString, known: &[&str]| known.iter().any(|it| name == OsStr::new(it));
    all.filter(move |(name, _)| {
        let bytes = name.as_encoded_bytes();
        prefixes
            .iter()
            .any(|prefix| bytes.starts_with(prefix.as_bytes()))
            || named(name, &ENVIRONMENT)
            || named(name, more)
    })
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// It cannot be started, or talked with.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It had not answered and ended in time, and was killed.
    #[error("it does not answer")]
    Silent,
    /// It ended with a failure; what it says of it is on its standard error.
    #[error("it failed ({0})")]
    Failed(ExitStatus),
}

/// How long a program may be busy that somebody has just written.
const INSTALLING: Duration = Duration::from_secs(5);

/// Starts a program, also one that was written a moment ago: until whatever another thread was
/// starting meanwhile runs, the file is open for writing there too, and cannot be run (ETXTBSY of
/// execve(2)).
pub fn start(command: &mut Command) -> io::Result<Child> {
    let begun = Instant::now();
    loop {
        match command.spawn() {
            Err(busy)
                if busy.kind() == io::ErrorKind::ExecutableFileBusy
                    && begun.elapsed() < INSTALLING =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// Starts the program, asks, and gives the first `most` bytes of what it answers. `patience`: until
/// it has closed its output.
pub fn ask(
    command: &mut Command,
    question: Vec<u8>,
    most: u64,
    patience: Duration,
) -> Result<Vec<u8>, HelperError> {
    let mut child = start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let answered = converse(&mut child, question, most).recv_timeout(patience);
    if answered.is_err() {
        // It may have ended by itself, and then there is nothing to end.
        let _ = child.kill();
    }
    // It has closed its output or was killed; one that stays all the same has no more time than
    // that.
    let status = ended(&mut child, patience)?;
    let answer = answered.map_err(|_| HelperError::Silent)?;
    match status {
        Some(status) if status.success() => Ok(answer?),
        Some(status) => Err(HelperError::Failed(status)),
        None => Err(HelperError::Silent),
    }
}

fn converse(
    child: &mut Child,
    question: Vec<u8>,
    most: u64,
) -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    std::thread::spawn(move || {
        let talk = || -> io::Result<Vec<u8>> {
            let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
            stdin.ok_or_else(broken)?.write_all(&question)?;
            let mut answer = Vec::new();
            stdout
                .ok_or_else(broken)?
                .take(most)
                .read_to_end(&mut answer)?;
            Ok(answer)
        };
        // Nobody waits any more when the receiver is gone.
        let _ = sender.send(talk());
    });
    receiver
}

/// How a child ended; killed, and none, where it has not in that time.
pub fn ended(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    const PAUSE: Duration = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    while waited < patience {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn shell(script: &str, patience: Duration) -> Result<Vec<u8>, HelperError> {
        ask(
            Command::new("/bin/sh").args(["-c", script]),
            b"question".to_vec(),
            16,
            patience,
        )
    }

    #[test]
    fn the_answer_is_read_up_to_its_bound() {
        let minute = Duration::from_secs(60);
        assert_eq!(shell("cat", minute).unwrap(), b"question");
        assert_eq!(
            shell("cat; head -c 100000 /dev/zero; exit 0", minute)
                .unwrap()
                .len(),
            16
        );
        assert!(
            matches!(shell("cat; exit 3", minute), Err(HelperError::Failed(status))
                if status.code() == Some(3))
        );
        let nothing = ask(&mut Command::new("/no/such/program"), vec![], 1, minute);
        assert!(matches!(nothing, Err(HelperError::Io(_))));
    }

    #[test]
    fn of_the_environment_a_program_knows_what_is_listed() {
        let all = [
            ("AWS_PROFILE", true, true),
            ("AWS_ENDPOINT_URL_STS", true, true),
            ("HOME", true, true),
            ("PATH", true, true),
            ("SSL_CERT_FILE", true, true),
            ("HTTPS_PROXY", false, true),
            ("no_proxy", false, true),
            ("COFFER_PASSPHRASE", false, false),
            ("COFFER_AWS_", false, false),
            ("HSM_PIN", false, false),
            ("LD_PRELOAD", false, false),
            ("aws_profile", false, false),
        ];
        let pairs = || all.iter().map(|(name, ..)| (name.into(), OsString::new()));
        let kept = |more: &[&str]| -> Vec<OsString> {
            let kept = aws_environment(pairs(), more);
            kept.map(|(name, _)| name).collect()
        };
        let expected = |keep: fn(&(&str, bool, bool)) -> bool| -> Vec<OsString> {
            let expected = all.iter().filter(|one| keep(one));
            expected.map(|(name, ..)| name.into()).collect()
        };
        assert_eq!(kept(&[]), expected(|(_, kept, _)| *kept));
        assert_eq!(kept(&PROXIES), expected(|(.., kept)| *kept));
    }

    #[test]
    fn one_that_is_still_being_written_is_waited_for() {
        let folder = std::env::temp_dir().join(format!("coffer-helper-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        std::fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let open = std::fs::OpenOptions::new().append(true).open(&program);
        let writer = open.unwrap();
        assert!(Command::new(&program).spawn().is_err());
        let closing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(writer);
        });
        let mut child = start(&mut Command::new(&program)).unwrap();
        assert!(child.wait().unwrap().success());
        closing.join().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn who_is_silent_or_stays_is_ended() {
        let moment = Duration::from_millis(300);
        assert!(matches!(
            shell("exec sleep 60", moment),
            Err(HelperError::Silent)
        ));
        let stays = "cat; exec >&-; exec sleep 60";
        assert!(matches!(shell(stays, moment), Err(HelperError::Silent)));
    }
}
