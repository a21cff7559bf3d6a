//! Object stores and HDFS, through `coffer-store`: a program without keys that has the network, and of the
//! environment the credentials and the proxies. It is started with the first question, and ends
//! with this process.

use std::{
    env,
    io::{self, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
};

use async_trait::async_trait;
use coffer_process::helper::{self, PROXIES};
use coffer_protocol::{
    port::{StorageAnswer, StorageRequest},
    storage::{ANSWER_MOST, Port, Remote, Storage},
};
use parking_lot::Mutex;
use prost::Message;

const PROGRAM: &str = "coffer-store";
/// Where Hadoop's configuration is, who asks, and by which tickets.
const HADOOP: [&str; 8] = [
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
    "HADOOP_PROXY_USER",
    "HADOOP_TOKEN_FILE_LOCATION",
    "HADOOP_USER_NAME",
    "KRB5CCNAME",
    "KRB5_CLIENT_KTNAME",
    "KRB5_CONFIG",
];

/// The program beside this one. Questions wait for each other.
struct Helper(Mutex<Option<Talk>>);

struct Talk {
    child: Child,
    question: ChildStdin,
    answer: ChildStdout,
}

/// Where the command line reaches tables that are named by URLs.
pub(crate) fn reach() -> Arc<dyn Storage> {
    Arc::new(Remote::new(Helper(Mutex::new(None))))
}

#[async_trait]
impl Port for Helper {
    async fn ask(&self, request: StorageRequest) -> io::Result<StorageAnswer> {
        let mut talk = self.0.lock();
        let asked = match talk.as_mut() {
            Some(talk) => talk.ask(&request),
            None => talk.insert(Talk::start()?).ask(&request),
        };
        if asked.is_err() {
            // Whatever it still says belongs to no question.
            *talk = None;
        }
        asked
    }
}

impl Talk {
    fn start() -> io::Result<Self> {
        let program = helper::beside(PROGRAM);
        let known = [PROXIES.as_slice(), &HADOOP].concat();
        let started = Command::new(&program)
            .env_clear()
            .envs(helper::aws_environment(env::vars_os(), &known))
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
            child,
        })
    }

    fn ask(&mut self, request: &StorageRequest) -> io::Result<StorageAnswer> {
        let question = request.encode_to_vec();
        let length = u32::try_from(question.len()).map_err(io::Error::other)?;
        self.question.write_all(&length.to_le_bytes())?;
        self.question.write_all(&question)?;
        self.question.flush()?;
        let mut length = [0; 4];
        self.answer.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        let short = |length| length <= ANSWER_MOST;
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

impl Drop for Talk {
    fn drop(&mut self) {
        // It has nothing of its own to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
