//! Object stores and HDFS, through `coffer-store`: a program without keys that has the network, and
//! of the environment the credentials and the proxies. It is started with the first question, and
//! ends with this process, or when an answer does not come in time.

use std::{
    env,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use coffer_process::helper::{self, PROXIES};
use coffer_protocol::{
    port::{StorageAnswer, StorageRequest},
    storage::{Port, Remote, Storage, answer_most},
};
use parking_lot::{Condvar, Mutex};
use prost::Message;

const PROGRAM: &str = "coffer-store";
/// How credentials and settings of object stores are named.
const CLOUDS: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];
/// Where Hadoop's configuration is, who asks, and by which tickets; and where Azure lends
/// identities.
const MORE: [&str; 9] = [
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
    "HADOOP_PROXY_USER",
    "HADOOP_TOKEN_FILE_LOCATION",
    "HADOOP_USER_NAME",
    "IDENTITY_ENDPOINT",
    "KRB5CCNAME",
    "KRB5_CLIENT_KTNAME",
    "KRB5_CONFIG",
];

/// Until an answer has come. Stores are tried again for minutes by the program itself; but who asks
/// may hold the register's lock.
const PATIENCE: Duration = Duration::from_secs(300);

/// The program beside this one. Questions wait for each other.
struct Helper {
    program: PathBuf,
    patience: Duration,
    talk: Mutex<Option<Talk>>,
}

struct Talk {
    child: Arc<Watched>,
    question: ChildStdin,
    answer: ChildStdout,
}

/// A process that is ended when it is late: whoever reads from it then sees its end.
struct Watched {
    state: Mutex<Watch>,
    changed: Condvar,
}

struct Watch {
    child: Child,
    /// Until when it must have answered.
    deadline: Option<Instant>,
    ended: bool,
}

/// Where the command line reaches tables that are named by URLs.
pub(crate) fn reach() -> Arc<dyn Storage> {
    Arc::new(Remote::new(Helper::of(helper::beside(PROGRAM), PATIENCE)))
}

impl Helper {
    fn of(program: PathBuf, patience: Duration) -> Self {
        Self {
            program,
            patience,
            talk: Mutex::new(None),
        }
    }
}

#[async_trait]
impl Port for Helper {
    async fn ask(&self, request: StorageRequest) -> io::Result<StorageAnswer> {
        let mut talk = self.talk.lock();
        let asked = match talk.as_mut() {
            Some(talk) => talk.ask(&request, self.patience),
            None => talk
                .insert(Talk::start(&self.program)?)
                .ask(&request, self.patience),
        };
        if asked.is_err() {
            // Whatever it still says belongs to no question.
            *talk = None;
        }
        asked
    }
}

impl Talk {
    fn start(program: &Path) -> io::Result<Self> {
        let known = [PROXIES.as_slice(), &MORE].concat();
        let started = Command::new(program)
            .env_clear()
            .envs(helper::cloud_environment(env::vars_os(), &CLOUDS, &known))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", program.display()))
        })?;
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        Ok(Self {
            question: child.stdin.take().ok_or_else(broken)?,
            answer: child.stdout.take().ok_or_else(broken)?,
            child: Watched::over(child)?,
        })
    }

    fn ask(&mut self, request: &StorageRequest, patience: Duration) -> io::Result<StorageAnswer> {
        self.child.expect(Some(patience));
        let answered = self.exchange(request);
        self.child.expect(None);
        match answered {
            Err(_) if self.child.is_ended() => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("storage did not answer within {} s", patience.as_secs()),
            )),
            answered => answered,
        }
    }

    fn exchange(&mut self, request: &StorageRequest) -> io::Result<StorageAnswer> {
        let question = request.encode_to_vec();
        let length = u32::try_from(question.len()).map_err(io::Error::other)?;
        self.question.write_all(&length.to_le_bytes())?;
        self.question.write_all(&question)?;
        self.question.flush()?;
        let mut length = [0; 4];
        self.answer.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        let short = |length| length <= answer_most(request);
        if !usize::try_from(length).is_ok_and(short) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut answer = Vec::new();
        (&mut self.answer)
            .take(length.into())
            .read_to_end(&mut answer)?;
        if u32::try_from(answer.len()) != Ok(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        StorageAnswer::decode(answer.as_slice()).map_err(io::Error::other)
    }
}

impl Watched {
    fn over(child: Child) -> io::Result<Arc<Self>> {
        let watched = Arc::new(Self {
            state: Mutex::new(Watch {
                child,
                deadline: None,
                ended: false,
            }),
            changed: Condvar::new(),
        });
        let watching = Arc::clone(&watched);
        let watch = move || watching.watch();
        let started = thread::Builder::new()
            .name("coffer-store".to_owned())
            .spawn(watch);
        if let Err(error) = started {
            watched.end();
            return Err(error);
        }
        Ok(watched)
    }

    fn watch(&self) {
        let mut state = self.state.lock();
        while !state.ended {
            match state.deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) if deadline <= Instant::now() => state.end(),
                Some(deadline) => {
                    let _ = self.changed.wait_until(&mut state, deadline);
                }
            }
        }
    }

    /// An answer within this time; none: nothing is due.
    fn expect(&self, patience: Option<Duration>) {
        self.state.lock().deadline = patience.map(|patience| Instant::now() + patience);
        self.changed.notify_one();
    }

    fn is_ended(&self) -> bool {
        self.state.lock().ended
    }

    fn end(&self) {
        self.state.lock().end();
        self.changed.notify_one();
    }
}

impl Watch {
    fn end(&mut self) {
        self.ended = true;
        // It has nothing of its own to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.child.end();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use coffer_protocol::port::storage_request;

    use super::*;

    #[test]
    fn a_store_that_never_answers_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("silent");
        // It takes the question, or not even that. Its standard output stays open.
        for (text, path) in [
            ("exec cat 3>&1 >/dev/null", "s3a://b/t".to_owned()),
            ("exec sleep 3600", "x".repeat(1 << 20)),
        ] {
            fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let of = storage_request::Of::Size(storage_request::Size { path });
            let question = StorageRequest { of: Some(of) };
            let mut talk = Talk::start(&program).unwrap();
            let error = talk.ask(&question, Duration::from_millis(300)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
            assert!(talk.ask(&question, Duration::from_secs(60)).is_err());
        }
    }
}
