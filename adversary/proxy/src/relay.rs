//! One connection of an executor, relayed to the engine message by message.
//!
//! The executor only ever answers, and the engine drives: so one thread reads the engine and acts,
//! and a second one hands over what the executor says and notices when it closes. A task's inputs
//! are fetched whole before the engine gets the first byte, and its streams are held until it ends:
//! mutations are applied to whole things.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use coffer_protocol::wire::{
    Attest, Done, EngineEvidence, Failed, Need, NeedKeys, Release, Start, TaskMessage,
};
use prost::Message as _;

use crate::{
    mutations::{Inputs, Sent},
    past::{End, Outcome, Task},
    recorder::{Duplicate, Recorder},
    wire::{Message, read, write},
};

/// Bytes of one IN or OUT.
const PIECE: usize = 1 << 20;
/// Inputs that a task may have; an executor says of others that they have ended.
const INPUTS: u32 = 8;
/// How long an engine may keep silent before it counts as hung; less than an executor waits.
const HANGS: Duration = Duration::from_secs(15);
/// How long an engine may take over what it is applied beside a task.
const PATIENCE: Duration = Duration::from_secs(2);

/// Changes answers with another proxy; see `exchange`.
pub type Exchange = dyn Fn(&Start, &Outcome) -> Option<(String, Outcome)> + Send + Sync;

/// What a relay needs beside its connection.
#[derive(Clone)]
pub struct Relay {
    /// The engine's socket.
    pub engine: PathBuf,
    /// What crossed, and what is armed.
    pub recorder: Arc<Recorder>,
    /// For `swap-engines`.
    pub exchange: Option<Arc<Exchange>>,
}

impl Relay {
    /// Relays every connection, for ever.
    pub fn accept(&self, listener: &UnixListener) {
        for front in listener.incoming().flatten() {
            let relay = self.clone();
            thread::spawn(move || relay.serve(front));
        }
    }

    /// Relays one connection until either side closes it.
    fn serve(&self, front: UnixStream) {
        // What fails here is seen by both sides as a closed connection.
        if let Ok(mut conversation) = Conversation::open(self.clone(), front) {
            let _ = conversation.run();
            conversation.close();
        }
    }
}

struct Conversation {
    relay: Relay,
    front: UnixStream,
    sent: mpsc::Receiver<Message>,
    back: UnixStream,
    /// The engine's end, for the thread that notices when the executor closes.
    watched: Arc<std::sync::Mutex<UnixStream>>,
    /// The connection to the engine is not to be used for another task.
    tainted: bool,
}

impl Conversation {
    fn open(relay: Relay, front: UnixStream) -> io::Result<Self> {
        let back = UnixStream::connect(&relay.engine)?;
        let watched = Arc::new(std::sync::Mutex::new(back.try_clone()?));
        let (sender, sent) = mpsc::channel();
        let mut from = front.try_clone()?;
        let engine = Arc::clone(&watched);
        thread::spawn(move || {
            while let Ok(Some(message)) = read(&mut from) {
                if sender.send(message).is_err() {
                    break;
                }
            }
            // The executor cancels by closing: so does this.
            if let Ok(engine) = engine.lock() {
                let _ = engine.shutdown(Shutdown::Both);
            }
        });
        Ok(Self {
            relay,
            front,
            sent,
            back,
            watched,
            tainted: false,
        })
    }

    fn close(&self) {
        let _ = self.front.shutdown(Shutdown::Both);
        let _ = self.back.shutdown(Shutdown::Both);
    }

    /// Conversation after conversation, until one side has closed.
    fn run(&mut self) -> io::Result<()> {
        while let Ok(message) = self.sent.recv() {
            if self.tainted {
                self.renew()?;
            }
            if message.is(TaskMessage::Start) {
                self.task(&message)?;
            } else if message.is(TaskMessage::Attest) {
                self.attest(&message)?;
            } else {
                write(&mut self.back, &message)?;
                self.pass_on()?;
            }
        }
        Ok(())
    }

    /// Another connection to the engine; the executor does not notice.
    fn renew(&mut self) -> io::Result<()> {
        let _ = self.back.shutdown(Shutdown::Both);
        self.back = UnixStream::connect(&self.relay.engine)?;
        if let Ok(mut watched) = self.watched.lock() {
            *watched = self.back.try_clone()?;
        }
        self.tainted = false;
        Ok(())
    }

    fn heard(&mut self) -> io::Result<Message> {
        read(&mut self.back)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let answer = self.heard()?;
        write(&mut self.front, &answer)
    }

    fn attest(&mut self, message: &Message) -> io::Result<()> {
        let mut attest = Attest::decode(message.payload.as_slice())?;
        self.relay.recorder.attest(&mut attest);
        write(
            &mut self.back,
            &Message::of(TaskMessage::Attest, attest.encode_to_vec()),
        )?;
        let mut answer = self.heard()?;
        if answer.is(TaskMessage::Evidence) {
            let mut evidence = EngineEvidence::decode(answer.payload.as_slice())?;
            let truth = evidence.clone();
            self.relay.recorder.evidence(&mut evidence);
            self.relay.recorder.past(|past| past.evidence.push(truth));
            answer = Message::of(TaskMessage::Evidence, evidence.encode_to_vec());
        }
        write(&mut self.front, &answer)
    }

    fn task(&mut self, message: &Message) -> io::Result<()> {
        let truth = Start::decode(message.payload.as_slice())?;
        let recorder = Arc::clone(&self.relay.recorder);
        let mut start = truth.clone();
        let withheld = recorder.release(&mut start.release, &truth.session);
        recorder.start(&mut start);
        if let Some((bytes, what)) = recorder.beside(&truth)
            && beside(&self.relay.engine, &bytes).is_ok()
        {
            recorder.delivered(what);
        }
        if let Some((sent, what)) = recorder.before(&truth) {
            self.say(&sent)?;
            recorder.delivered(what);
        }
        self.apply(&Message::of(TaskMessage::Start, start.encode_to_vec()))?;

        let mut task = Running::default();
        let end = loop {
            let message = self.heard()?;
            if message.is(TaskMessage::Need) {
                self.answer(&mut task, &message, &truth)?;
            } else if message.is(TaskMessage::NeedKeys) {
                self.keys(&message, withheld)?;
            } else if message.is(TaskMessage::Out) {
                task.out(&message)?;
            } else if message.is(TaskMessage::Done) {
                break End::Done(Done::decode(message.payload.as_slice())?);
            } else if message.is(TaskMessage::Failed) {
                break End::Failed(Failed::decode(message.payload.as_slice())?);
            } else {
                // Out of turn: the executor's business.
                write(&mut self.front, &message)?;
                self.tainted = true;
                return Ok(());
            }
        };
        let mut outcome = Outcome {
            outs: task.outs,
            end,
        };
        let true_task = Task {
            start: truth.clone(),
            inputs: task.true_inputs,
            outcome: outcome.clone(),
        };
        if outcome.done().is_some()
            && recorder.twice()
            && let Some(second) = self.second(&true_task)
        {
            recorder.of_both(&mut outcome, &second, &truth);
        }
        if outcome.done().is_some()
            && recorder.wants_attempts()
            && let Some(second) = self.second(&true_task)
        {
            recorder.keep_attempt(Task {
                outcome: second,
                ..true_task.clone()
            });
        }
        if outcome.done().is_some()
            && recorder.exchange()
            && let Some(exchange) = &self.relay.exchange
            && let Some((with, theirs)) = exchange(&truth, &outcome)
        {
            outcome = theirs;
            recorder.exchanged(&with, &truth);
        }
        recorder.outcome(&mut outcome, &truth);
        // Kept before the executor goes on: the next task may want to replay it.
        if !self.tainted && start == truth {
            recorder.keep(true_task);
        }
        send(&mut self.front, &outcome)
    }

    /// Another run of a task that was done, if it is done too.
    fn second(&self, task: &Task) -> Option<Outcome> {
        match again(&self.relay, &task.start, task.inputs.clone()) {
            Ok(second) => second.done().is_some().then_some(second),
            Err(error) => {
                if hung(&error) {
                    self.relay
                        .recorder
                        .fault("hang: a second run of a task does not end");
                }
                None
            }
        }
    }

    /// Says a message to the engine. One that has closed may have said why: that is still to be
    /// heard.
    fn apply(&mut self, message: &Message) -> io::Result<()> {
        match write(&mut self.back, message) {
            Err(error) if closed(&error) => Ok(()),
            result => result,
        }
    }

    /// Answers one NEED.
    fn answer(&mut self, task: &mut Running, message: &Message, start: &Start) -> io::Result<()> {
        let asked = Need::decode(message.payload.as_slice())?.input_id;
        if !task.inputs.contains_key(&asked) {
            self.fetch(task, asked)?;
            if self.relay.recorder.wants_inputs() {
                (0..INPUTS).try_for_each(|other| self.fetch(task, other))?;
            }
            if let Some(duplicate) = self.relay.recorder.duplicate(&task.inputs, asked, start) {
                let (relay, start) = (self.relay.clone(), start.clone());
                thread::spawn(move || run_duplicate(&relay, &start, duplicate, asked));
            }
            self.relay.recorder.input(&mut task.inputs, asked, start);
        }
        let due = task.piece(asked);
        // At an input's true end some mutations would be none.
        if due.is(TaskMessage::In)
            && let Some((sent, what)) = self.relay.recorder.midway(asked, start)
        {
            self.say(&sent)?;
            self.relay.recorder.delivered(what);
            if !sent.then_answer {
                return Ok(());
            }
        }
        self.apply(&due)
    }

    /// Has the executor hand over a whole input.
    fn fetch(&mut self, task: &mut Running, input: u32) -> io::Result<()> {
        if task.inputs.contains_key(&input) {
            return Ok(());
        }
        let need = Message::of(TaskMessage::Need, Need { input_id: input }.encode_to_vec());
        let mut bytes = Vec::new();
        loop {
            write(&mut self.front, &need)?;
            let answer = self.sent.recv().map_err(|_| io::ErrorKind::UnexpectedEof)?;
            if answer.is(TaskMessage::InEnd) {
                break;
            }
            bytes.extend_from_slice(answer.payload.get(4..).unwrap_or_default());
        }
        task.true_inputs.insert(input, bytes.clone());
        task.inputs.insert(input, bytes);
        Ok(())
    }

    /// NEED_KEYS, and the executor's answer. Who lied about the release that came with the task
    /// goes on lying.
    fn keys(&mut self, message: &Message, withheld: bool) -> io::Result<()> {
        let session = NeedKeys::decode(message.payload.as_slice())?.session;
        write(&mut self.front, message)?;
        let answer = self.sent.recv().map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let truth = Release::decode(answer.payload.as_slice())?;
        let mut release = Some(truth.clone());
        if withheld {
            self.relay.recorder.release_again(&mut release, &session);
        } else {
            self.relay.recorder.release(&mut release, &session);
        }
        self.relay
            .recorder
            .past(|past| past.keep_release(&session, &truth));
        let release = release.unwrap_or_default();
        self.apply(&Message::of(TaskMessage::Release, release.encode_to_vec()))
    }

    fn say(&mut self, sent: &Sent) -> io::Result<()> {
        self.tainted = true;
        self.back.write_all(&sent.bytes)?;
        if sent.close {
            self.back.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

/// A task under way.
#[derive(Default)]
struct Running {
    true_inputs: Inputs,
    /// As the engine gets them.
    inputs: Inputs,
    given: BTreeMap<u32, usize>,
    /// Inputs that were given to their end.
    whole: BTreeSet<u32>,
    outs: Vec<(u32, Vec<u8>)>,
}

impl Running {
    fn out(&mut self, message: &Message) -> io::Result<()> {
        let (target, bytes) = message
            .payload
            .split_first_chunk::<4>()
            .ok_or(io::ErrorKind::InvalidData)?;
        let target = u32::from_le_bytes(*target);
        match self.outs.last_mut() {
            Some((last, held)) if *last == target => held.extend_from_slice(bytes),
            _ => self.outs.push((target, bytes.to_vec())),
        }
        Ok(())
    }

    /// The next piece of an input, or its end.
    fn piece(&mut self, input: u32) -> Message {
        let given = self.given.entry(input).or_default();
        let rest = self
            .inputs
            .get(&input)
            .and_then(|bytes| bytes.get(*given..))
            .unwrap_or_default();
        let piece = rest.get(..rest.len().min(PIECE)).unwrap_or_default();
        *given += piece.len();
        let kind = if piece.is_empty() {
            self.whole.insert(input);
            TaskMessage::InEnd
        } else {
            TaskMessage::In
        };
        Message::of(kind, [&input.to_le_bytes(), piece].concat())
    }
}

/// Whether the engine gave no answer in time.
#[must_use]
pub fn hung(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// A second run of a task beside the first.
fn run_duplicate(relay: &Relay, start: &Start, duplicate: Duplicate, asked: u32) {
    let mut running = Running {
        inputs: duplicate.inputs,
        ..Running::default()
    };
    let end = match rerun(relay, start, &mut running) {
        // An engine that did not need all of it has not taken what was altered for true.
        Ok(End::Done(_)) if running.whole.contains(&asked) => "done".to_owned(),
        Ok(End::Done(_)) => "done in part".to_owned(),
        Ok(End::Failed(failed)) => failed.code,
        Err(error) if hung(&error) => "hang".to_owned(),
        Err(error) => format!("closed: {:?}", error.kind()),
    };
    let what = format!("{}: {}", duplicate.position, duplicate.what);
    relay
        .recorder
        .duplicate_ended(&what, running.given.contains_key(&asked), end);
}

fn send(front: &mut UnixStream, outcome: &Outcome) -> io::Result<()> {
    for (target, bytes) in &outcome.outs {
        let mut rest = bytes.as_slice();
        loop {
            let (piece, more) = rest.split_at(rest.len().min(PIECE));
            write(
                front,
                &Message::of(TaskMessage::Out, [&target.to_le_bytes(), piece].concat()),
            )?;
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
    }
    let last = match &outcome.end {
        End::Done(done) => Message::of(TaskMessage::Done, done.encode_to_vec()),
        End::Failed(failed) => Message::of(TaskMessage::Failed, failed.encode_to_vec()),
    };
    write(front, &last)
}

/// Runs a task once more, on a connection of its own, with all that is known of it: its inputs and
/// its session's key releases.
pub fn again(relay: &Relay, start: &Start, inputs: Inputs) -> io::Result<Outcome> {
    let mut running = Running {
        inputs,
        ..Running::default()
    };
    let end = rerun(relay, start, &mut running)?;
    Ok(Outcome {
        outs: running.outs,
        end,
    })
}

fn rerun(relay: &Relay, start: &Start, running: &mut Running) -> io::Result<End> {
    let mut back = UnixStream::connect(&relay.engine)?;
    back.set_read_timeout(Some(HANGS))?;
    back.set_write_timeout(Some(HANGS))?;
    write(
        &mut back,
        &Message::of(TaskMessage::Start, start.encode_to_vec()),
    )?;
    let mut releases = relay
        .recorder
        .past(|past| past.releases(|session| session == start.session))
        .into_iter();
    loop {
        let message = read(&mut back)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if message.is(TaskMessage::Need) {
            let asked = Need::decode(message.payload.as_slice())?.input_id;
            write(&mut back, &running.piece(asked))?;
        } else if message.is(TaskMessage::NeedKeys) {
            let release = releases.next().unwrap_or_default();
            write(
                &mut back,
                &Message::of(TaskMessage::Release, release.encode_to_vec()),
            )?;
        } else if message.is(TaskMessage::Out) {
            running.out(&message)?;
        } else if message.is(TaskMessage::Done) {
            return Ok(End::Done(Done::decode(message.payload.as_slice())?));
        } else if message.is(TaskMessage::Failed) {
            return Ok(End::Failed(Failed::decode(message.payload.as_slice())?));
        } else {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Says bytes to an engine on a connection of their own, and hears out what comes, for a while.
/// Fails if they were not said.
fn beside(engine: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut back = UnixStream::connect(engine)?;
    back.set_read_timeout(Some(PATIENCE))?;
    back.write_all(bytes)?;
    // Whether it closes, refuses or waits for more is its own affair; what counts is that it lives.
    let _ = back.shutdown(Shutdown::Write);
    let _ = back.read(&mut [0; 4096]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that asks for an input once, or to its end, and takes whatever comes for true.
    fn credulous(listener: UnixListener, to_the_end: bool) -> thread::JoinHandle<io::Result<()>> {
        thread::spawn(move || {
            let (mut peer, _) = listener.accept()?;
            read(&mut peer)?;
            loop {
                write(
                    &mut peer,
                    &Message::of(TaskMessage::Need, Need { input_id: 4 }.encode_to_vec()),
                )?;
                let answer = read(&mut peer)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                if !to_the_end || answer.is(TaskMessage::InEnd) {
                    break;
                }
            }
            write(
                &mut peer,
                &Message::of(TaskMessage::Done, Done::default().encode_to_vec()),
            )
        })
    }

    #[test]
    fn a_duplicate_that_an_engine_accepts_is_reported() {
        for (to_the_end, end) in [(true, "done"), (false, "done in part")] {
            let folder = std::env::temp_dir().join(format!(
                "coffer-duplicate-{}-{to_the_end}",
                std::process::id()
            ));
            let _ = std::fs::remove_file(&folder);
            let engine = credulous(UnixListener::bind(&folder).unwrap(), to_the_end);
            let relay = Relay {
                engine: folder.clone(),
                recorder: Recorder::new(),
                exchange: None,
            };
            relay.recorder.arm("honest-duplicate", 1, 0);
            let duplicate = relay
                .recorder
                .duplicate(&[(4, vec![1; 40])].into(), 4, &Start::default())
                .unwrap();
            run_duplicate(&relay, &Start::default(), duplicate, 4);
            assert_eq!(relay.recorder.disarm().beside.as_deref(), Some(end));
            engine.join().unwrap().unwrap();
            std::fs::remove_file(&folder).unwrap();
        }
    }

    #[test]
    fn nothing_is_sent_beside_without_an_engine() {
        assert!(beside(Path::new("/nonexistent/engine"), b"x").is_err());
    }
}
