//! The control socket: one line of JSON in, one out, for each connection.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use coffer_protocol::wire::EngineEvidence;
use prost::Message as _;
use serde_json::{Value, json};

use crate::{
    engine::Engine,
    mutations,
    past::{End, Outcome},
    relay::{Relay, again, hung},
    rng::Rng,
};

/// The folder of the control sockets of all proxies, and of what outlives one.
pub struct Control {
    folder: PathBuf,
    relay: Relay,
    engine: Arc<Engine>,
    /// Whether the engine is ended by this process.
    ending: AtomicBool,
}

impl Control {
    /// Listens in `folder`, on a socket that has this process's id for its name.
    pub fn open(folder: &Path, relay: Relay, engine: Arc<Engine>) -> io::Result<Arc<Self>> {
        let control = Arc::new(Self {
            folder: folder.to_owned(),
            relay,
            engine,
            ending: AtomicBool::new(false),
        });
        control.take_up();
        let listener = UnixListener::bind(control.socket())?;
        let serving = Arc::clone(&control);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // Whoever asks sees a failure as a connection without an answer.
                let _ = serving.serve(connection);
            }
        });
        Ok(control)
    }

    /// Evidence of engines that are gone, and what this proxy is to begin with.
    fn take_up(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if path
                .extension()
                .is_some_and(|extension| extension == "evidence")
            {
                let evidence = fs::read(&path)
                    .ok()
                    .and_then(|bytes| EngineEvidence::decode(bytes.as_slice()).ok());
                self.relay
                    .recorder
                    .past(|past| past.evidence.extend(evidence));
            }
        }
        let mine = self.folder.join(format!("{}.boot", process::id()));
        if fs::rename(self.folder.join("boot.json"), &mine).is_ok()
            && let Ok(bytes) = fs::read(&mine)
            && let Ok(order) = serde_json::from_slice(&bytes)
        {
            self.obey(&order);
        }
    }

    /// Leaves a file for others, whole or not at all; without it they only know less.
    fn leave(&self, extension: &str, bytes: &[u8]) {
        let path = self.folder.join(format!("{}.{extension}", process::id()));
        let unfinished = path.with_extension("unfinished");
        let _ = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &path));
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.control", process::id()))
    }

    fn serve(&self, mut connection: UnixStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(connection.try_clone()?).read_line(&mut line)?;
        let order: Value = serde_json::from_str(&line)?;
        let mut answer = self.obey(&order).to_string();
        answer.push('\n');
        connection.write_all(answer.as_bytes())?;
        if order["do"] == "die" {
            self.end();
        }
        Ok(())
    }

    fn obey(&self, order: &Value) -> Value {
        let word = |name: &str| order[name].as_str().unwrap_or_default();
        let number = |name: &str| order[name].as_u64().unwrap_or_default();
        match word("do") {
            "arm" => match self
                .relay
                .recorder
                .arm(word("mutation"), number("seed"), number("skip"))
            {
                true => json!({}),
                false => json!({ "error": format!("there is no mutation {}", order["mutation"]) }),
            },
            "disarm" => {
                let report = self.relay.recorder.disarm();
                json!({ "what": report.what, "seen": report.seen, "served": report.served,
                    "beside": report.beside })
            }
            "probe" => self.probe(number("seed")),
            "health" => {
                let mut panics = self.engine.panics();
                panics.extend(self.relay.recorder.faults());
                json!({ "engine": self.engine.id(), "alive": self.engine.is_alive(),
                    "panics": panics })
            }
            "list" => {
                let mutations = mutations::all();
                let mutations = mutations
                    .iter()
                    .map(|(name, mutation)| ((*name).to_owned(), json!(mutation.position())));
                json!({ "mutations": serde_json::Map::from_iter(mutations) })
            }
            "die" => json!({}),
            other => json!({ "error": format!("there is no order {other:?}") }),
        }
    }

    /// Runs a task of an earlier session again: not of the newest, which may still live.
    fn probe(&self, seed: u64) -> Value {
        let tasks = self.relay.recorder.past(|past| {
            let newest = past.newest().map(|task| task.start.session.clone());
            // Without a key release of its session it would be refused for the want of one.
            past.tasks(|task| {
                Some(&task.start.session) != newest.as_ref()
                    && !past
                        .releases(|session| session == task.start.session)
                        .is_empty()
            })
        });
        let Some(task) = Rng::new(seed).pick(&tasks).cloned() else {
            return json!({ "what": null, "answer": "" });
        };
        let answer = match again(&self.relay, &task.start, task.inputs.clone()) {
            Ok(Outcome {
                end: End::Done(_), ..
            }) => "done".to_owned(),
            Ok(Outcome {
                end: End::Failed(failed),
                ..
            }) => failed.code,
            Err(error) if hung(&error) => "hang".to_owned(),
            Err(error) => format!("closed: {error}"),
        };
        let what = format!(
            "stage {} partition {} again",
            task.start.stage, task.start.partition
        );
        json!({ "what": what, "answer": answer, "session": hex(&task.start.session) })
    }

    /// Ends engine and proxy.
    pub fn end(&self) -> ! {
        self.ending.store(true, Ordering::SeqCst);
        self.engine.kill();
        self.leave_all();
        process::exit(0)
    }

    /// Once the engine has ended: so does the proxy, with its code. That an engine ended by itself
    /// is left word of, whoever takes its place.
    pub fn follow(&self) -> ! {
        if self.ending.load(Ordering::SeqCst) {
            // What is to be left is being left.
            loop {
                thread::park();
            }
        }
        let how = self.engine.ended();
        let words = how.map_or_else(
            || "nobody knows how".to_owned(),
            |status| status.to_string(),
        );
        self.leave("fell", words.as_bytes());
        self.leave_all();
        process::exit(how.and_then(|status| status.code()).unwrap_or(1))
    }

    /// Leaves the engine's evidence for those that come, and word of what was applied.
    fn leave_all(&self) {
        let report = self.relay.recorder.disarm();
        let report = json!({ "what": report.what, "seen": report.seen, "served": report.served })
            .to_string();
        self.leave("report", report.as_bytes());
        let evidence = self
            .relay
            .recorder
            .past(|past| past.evidence.last().cloned());
        if let Some(evidence) = evidence {
            self.leave("evidence", &evidence.encode_to_vec());
        }
        let _ = fs::remove_file(self.socket());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
