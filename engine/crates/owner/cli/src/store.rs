//! Object stores and HDFS, through `coffer-store`: a program without keys that has the network, and
//! of the environment the credentials and the proxies. It is started with the first question, and
//! ends with this process, or when an answer does not come in time. A message is `length: u32 LE ‖
//! number: u64 LE ‖ protobuf`; an answer has its question's number, and answers come in any order.

use std::{
    collections::{BTreeMap, HashMap},
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
use futures::channel::oneshot;
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

/// The program beside this one.
struct Helper {
    program: PathBuf,
    patience: Duration,
    talk: Mutex<Option<Arc<Talk>>>,
}

/// One run of it. Any number of questions at the same time.
struct Talk {
    patience: Duration,
    question: Mutex<Questions>,
    answers: Arc<Answers>,
}

struct Questions {
    write: ChildStdin,
    next: u64,
}

/// Shared with the thread that reads them.
struct Answers {
    waiting: Mutex<Option<HashMap<u64, Waiting>>>,
    child: Arc<Watched>,
}

struct Waiting {
    /// Bytes of the answer.
    most: usize,
    answer: oneshot::Sender<io::Result<StorageAnswer>>,
}

/// A process that is ended when it is late: whoever reads from it then sees its end.
struct Watched {
    state: Mutex<Watch>,
    changed: Condvar,
}

struct Watch {
    child: Child,
    /// Until when it must have answered each question.
    deadlines: BTreeMap<u64, Instant>,
    ended: bool,
    late: bool,
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
        let talk = {
            let mut talk = self.talk.lock();
            match talk.as_ref().filter(|talk| !talk.answers.is_over()) {
                Some(talk) => Arc::clone(talk),
                None => Arc::clone(talk.insert(Talk::start(&self.program, self.patience)?)),
            }
        };
        talk.ask(&request).await
    }
}

impl Talk {
    fn start(program: &Path, patience: Duration) -> io::Result<Arc<Self>> {
        let known = [PROXIES.as_slice(), &MORE].concat();
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(helper::cloud_environment(env::vars_os(), &CLOUDS, &known))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = helper::start(&mut command).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", program.display()))
        })?;
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let write = child.stdin.take().ok_or_else(broken)?;
        let read = child.stdout.take().ok_or_else(broken)?;
        let answers = Arc::new(Answers {
            waiting: Mutex::new(Some(HashMap::new())),
            child: Watched::over(child)?,
        });
        let talk = Arc::new(Self {
            patience,
            question: Mutex::new(Questions { write, next: 0 }),
            answers: Arc::clone(&answers),
        });
        // From here on the program ends with `talk`.
        thread::Builder::new()
            .name("coffer-store-answers".to_owned())
            .spawn(move || answers.read(read))?;
        Ok(talk)
    }

    async fn ask(&self, request: &StorageRequest) -> io::Result<StorageAnswer> {
        let text = request.encode_to_vec();
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut question = self.question.lock();
            let number = question.next;
            question.next = number.wrapping_add(1);
            let most = answer_most(request);
            match self.answers.waiting.lock().as_mut() {
                Some(waiting) => waiting.insert(number, Waiting { most, answer }),
                None => return Err(self.answers.lost(None)),
            };
            self.answers.child.expect(number, Some(self.patience));
            let head = [length.to_le_bytes().as_slice(), &number.to_le_bytes()].concat();
            let written = question
                .write
                .write_all(&head)
                .and_then(|()| question.write.write_all(&text))
                .and_then(|()| question.write.flush());
            if let Err(error) = written {
                // Half a question: nothing more can be asked.
                self.answers.end();
                return Err(self.answers.lost(Some(error)));
            }
            number
        };
        let answered = answered.await;
        self.answers.child.expect(number, None);
        answered.unwrap_or_else(|_| Err(self.answers.lost(None)))
    }
}

impl Answers {
    /// Gives answers to those who wait, until the program ends or breaks the protocol.
    fn read(&self, mut from: ChildStdout) {
        while self.read_one(&mut from).is_ok() {}
        self.end();
    }

    fn read_one(&self, from: &mut ChildStdout) -> io::Result<()> {
        let (mut length, mut number) = ([0; 4], [0; 8]);
        from.read_exact(&mut length)?;
        from.read_exact(&mut number)?;
        let length = u32::from_le_bytes(length);
        let number = u64::from_le_bytes(number);
        let waiting = match self.waiting.lock().as_mut() {
            Some(waiting) => waiting.remove(&number),
            None => None,
        };
        // What nobody asked for has no length that would do.
        let waiting = waiting.ok_or(io::ErrorKind::InvalidData)?;
        if !usize::try_from(length).is_ok_and(|length| length <= waiting.most) {
            let _ = waiting.answer.send(Err(io::ErrorKind::InvalidData.into()));
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut answer = Vec::new();
        from.take(length.into()).read_to_end(&mut answer)?;
        if u32::try_from(answer.len()) != Ok(length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let decoded = StorageAnswer::decode(answer.as_slice()).map_err(io::Error::other);
        // Whoever asked may have gone.
        let _ = waiting.answer.send(decoded);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.waiting.lock().is_none()
    }

    /// Whatever it still says belongs to no question.
    fn end(&self) {
        self.child.end();
        drop(self.waiting.lock().take());
    }

    /// Why an answer does not come any more.
    fn lost(&self, error: Option<io::Error>) -> io::Error {
        match self.child.was_late() {
            true => io::Error::new(io::ErrorKind::TimedOut, "storage did not answer in time"),
            false => error.unwrap_or_else(|| {
                let text = "the program that reaches storage has ended";
                io::Error::new(io::ErrorKind::UnexpectedEof, text)
            }),
        }
    }
}

impl Watched {
    fn over(child: Child) -> io::Result<Arc<Self>> {
        let watched = Arc::new(Self {
            state: Mutex::new(Watch {
                child,
                deadlines: BTreeMap::new(),
                ended: false,
                late: false,
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
            match state.deadlines.values().min().copied() {
                None => self.changed.wait(&mut state),
                Some(deadline) if deadline <= Instant::now() => {
                    state.late = true;
                    state.end();
                }
                Some(deadline) => {
                    let _ = self.changed.wait_until(&mut state, deadline);
                }
            }
        }
    }

    /// An answer within this time; none: it came.
    fn expect(&self, number: u64, patience: Option<Duration>) {
        let mut state = self.state.lock();
        match patience {
            Some(patience) => state.deadlines.insert(number, Instant::now() + patience),
            None => state.deadlines.remove(&number),
        };
        drop(state);
        self.changed.notify_one();
    }

    fn was_late(&self) -> bool {
        self.state.lock().late
    }

    fn end(&self) {
        self.state.lock().end();
        self.changed.notify_one();
    }
}

impl Watch {
    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            // It has nothing of its own to save.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.answers.end();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use coffer_protocol::port::storage_request;
    use futures::executor::block_on;

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
            let talk = Talk::start(&program, Duration::from_millis(300)).unwrap();
            let error = block_on(talk.ask(&question)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
            assert!(block_on(talk.ask(&question)).is_err());
        }
    }
}
