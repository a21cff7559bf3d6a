//! Streams: what one attempt of one task writes for one target, as `preamble ‖ frame ‖ frame ‖ …`.
//!
//! ```text
//! preamble:  0   magic "CFS1"           4   attempt id, 16 bytes
//!            20  map partition u32 LE   24  target u32 LE
//! ```
//! The preamble lies in the clear and proves nothing: a reader builds the identity from its own
//! descriptor and takes from the preamble only the attempt id, which it holds against the list of
//! attempts that count. Everything in the identity goes into the stream's key, so a stream opens at
//! its own place only.

use std::collections::HashSet;

use crate::{
    AttemptId, Error, ExecutionId, FrameKey as Key, Partition, SessionId, SessionKey, StageId,
    bytes::field,
    frame::{FrameOpener, FrameSealer, OpenedFrame},
};

/// Bytes of a preamble.
pub const PREAMBLE_LEN: usize = 28;
const MAGIC: [u8; 4] = *b"CFS1";

/// Whom a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamTarget {
    /// A reduce partition of a shuffle.
    Shuffle(u32),
    /// Every engine that needs the broadcast.
    Broadcast,
    /// The client engine: rows of the result.
    Result,
    /// The client engine: sampled sort keys, for picking bounds.
    Sample,
}

impl StreamTarget {
    /// The number of the target in the preamble and on the wire; 0 but for a shuffle.
    pub fn number(self) -> u32 {
        match self {
            StreamTarget::Shuffle(reduce) => reduce,
            StreamTarget::Broadcast | StreamTarget::Result | StreamTarget::Sample => 0,
        }
    }

    fn label(self) -> &'static str {
        match self {
            StreamTarget::Shuffle(_) => "stream shuffle",
            StreamTarget::Broadcast => "stream broadcast",
            StreamTarget::Result => "stream result",
            StreamTarget::Sample => "stream sample",
        }
    }
}

/// Where in a query a stream belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamIdentity {
    /// The session.
    pub session: SessionId,
    /// The run of the plan. Has no part in the key of a shuffle or a broadcast: these outlive the
    /// run.
    pub execution: ExecutionId,
    /// The stage that writes.
    pub stage: StageId,
    /// The partition that writes.
    pub partition: Partition,
    /// The attempt that writes.
    pub attempt: AttemptId,
    /// Whom it is for.
    pub target: StreamTarget,
}

impl StreamIdentity {
    fn key(&self, session_key: &SessionKey) -> Result<Key, Error> {
        let execution = match self.target {
            StreamTarget::Shuffle(_) | StreamTarget::Broadcast => 0,
            StreamTarget::Result | StreamTarget::Sample => self.execution.0,
        };
        let secret = session_key.root().derive(
            self.target.label(),
            &[
                self.session.as_bytes(),
                &execution.to_le_bytes(),
                &self.stage.0.to_le_bytes(),
                &self.partition.0.to_le_bytes(),
                self.attempt.as_bytes(),
                &self.target.number().to_le_bytes(),
            ],
        )?;
        Key::new(&secret)
    }
}

/// One run of one task, as its engine sees it: draws its attempt id and hands out one sealer for
/// each target.
///
/// The only way to a [`StreamSealer`]: were an attempt id given from outside, or a target sealed
/// twice, the host could make two plaintexts share a key and a nonce.
pub struct Attempt {
    key: SessionKey,
    session: SessionId,
    execution: ExecutionId,
    stage: StageId,
    partition: Partition,
    id: AttemptId,
    taken: HashSet<StreamTarget>,
}

impl Attempt {
    /// Draws an attempt id for this run.
    pub fn begin(
        key: &SessionKey,
        session: SessionId,
        execution: ExecutionId,
        stage: StageId,
        partition: Partition,
    ) -> Result<Self, Error> {
        let id = AttemptId::draw()?;
        Ok(Self {
            key: key.clone(),
            session,
            execution,
            stage,
            partition,
            id,
            taken: HashSet::new(),
        })
    }

    /// The id that was drawn: for the commit record.
    pub fn id(&self) -> AttemptId {
        self.id
    }

    /// The sealer for a target; each target has one.
    pub fn sealer(&mut self, target: StreamTarget) -> Result<StreamSealer, Error> {
        if !self.taken.insert(target) {
            return Err(Error::TargetTaken);
        }
        let Self {
            session,
            execution,
            stage,
            partition,
            id: attempt,
            ..
        } = *self;
        StreamSealer::new(
            &self.key,
            StreamIdentity {
                session,
                execution,
                stage,
                partition,
                attempt,
                target,
            },
        )
    }
}

/// Seals one stream.
pub struct StreamSealer {
    identity: StreamIdentity,
    frames: FrameSealer,
}

impl StreamSealer {
    pub(crate) fn new(key: &SessionKey, identity: StreamIdentity) -> Result<Self, Error> {
        Ok(Self {
            identity,
            frames: FrameSealer::new(identity.key(key)?),
        })
    }

    /// The stream's identity.
    pub fn identity(&self) -> &StreamIdentity {
        &self.identity
    }

    /// Appends the preamble: the first bytes of the stream.
    pub fn preamble(&self, out: &mut Vec<u8>) {
        StreamPreamble::of(&self.identity).append(out);
    }

    /// Appends a frame with this plaintext; `last` ends the stream, and may go with an empty
    /// plaintext.
    pub fn seal(&mut self, plain: &[u8], last: bool, out: &mut Vec<u8>) -> Result<(), Error> {
        out.reserve(plain.len().saturating_add(crate::frame::OVERHEAD));
        self.frames.seal_with(last, out, |out| {
            out.extend_from_slice(plain);
            Ok(())
        })
    }

    /// Appends a frame whose plaintext `fill` appends to the buffer itself: no copy. On an error
    /// the buffer is as before.
    pub fn seal_with<E: From<Error>>(
        &mut self,
        last: bool,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.frames.seal_with(last, out, fill)
    }

    /// Frames sealed so far: for the commit record.
    pub fn frames(&self) -> u64 {
        self.frames.frames()
    }

    /// Whether the last frame was sealed.
    pub fn is_finished(&self) -> bool {
        self.frames.is_closed()
    }

    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, frame: u64) {
        self.frames.skip_to(frame);
    }
}

/// The first bytes of a stream: hints, all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPreamble {
    /// The attempt that wrote the stream, by its own word.
    pub attempt: AttemptId,
    /// The partition that wrote it, by its own word.
    pub partition: Partition,
    /// The number of its target, by its own word.
    pub target: u32,
}

impl StreamPreamble {
    fn of(identity: &StreamIdentity) -> Self {
        Self {
            attempt: identity.attempt,
            partition: identity.partition,
            target: identity.target.number(),
        }
    }

    /// Reads the first [`PREAMBLE_LEN`] bytes of a stream.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if field::<4>(bytes, 0)? != MAGIC {
            return Err(Error::BadMagic);
        }
        Ok(Self {
            attempt: AttemptId(field(bytes, 4)?),
            partition: Partition(u32::from_le_bytes(field(bytes, 20)?)),
            target: u32::from_le_bytes(field(bytes, 24)?),
        })
    }

    fn append(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(self.attempt.as_bytes());
        out.extend_from_slice(&self.partition.0.to_le_bytes());
        out.extend_from_slice(&self.target.to_le_bytes());
    }

    /// Errors unless the preamble names what the reader expects, `attempt` being the one that
    /// counts.
    pub fn check(&self, expected: &StreamIdentity) -> Result<(), Error> {
        if self.partition != expected.partition {
            return Err(Error::WrongPartition);
        }
        if self.target != expected.target.number() {
            return Err(Error::WrongTarget);
        }
        if self.attempt != expected.attempt {
            return Err(Error::WrongAttempt);
        }
        Ok(())
    }
}

/// Opens one stream: every frame, in order, from number 0 to the last.
pub struct StreamOpener {
    frames: FrameOpener,
}

impl StreamOpener {
    /// `identity` is the reader's own: from its descriptor, and for the attempt from the list of
    /// those that count.
    pub fn new(key: &SessionKey, identity: StreamIdentity) -> Result<Self, Error> {
        Ok(Self {
            frames: FrameOpener::new(identity.key(key)?),
        })
    }

    /// Opens the next frame, in place. The buffer holds exactly one frame (see
    /// [`crate::StreamReader`]). After an error nothing more opens.
    pub fn open<B: AsMut<[u8]>>(&mut self, frame: B) -> Result<OpenedFrame<B>, Error> {
        self.frames.open(frame)
    }

    /// Frames opened so far.
    pub fn frames(&self) -> u64 {
        self.frames.frames()
    }

    /// Whether the last frame was opened: the next bytes are another stream's.
    pub fn is_finished(&self) -> bool {
        self.frames.is_finished()
    }

    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, frame: u64) {
        self.frames.skip_to(frame);
    }

    /// How many frames the whole stream had; an error unless the last one was opened.
    pub fn finish(self) -> Result<u64, Error> {
        self.frames.finish()
    }
}
