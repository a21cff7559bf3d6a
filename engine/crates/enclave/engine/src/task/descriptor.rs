//! What a task is: its fragment, descriptor and objects, opened and checked against each other.
//!
//! [`Assignment`] is built here alone. Where it exists, the fragment is the one that the descriptor
//! names by digest, the descriptor is of the very task that was asked for, and every object is
//! pinned or, for lists of attempts, not older than the descriptor and what the engine has seen.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use coffer_plan::{KeyBounds, codec::Packing};
use coffer_protocol::{
    plan::{Fragment, Input, Node, Scan, node::Op, sink},
    tree::children,
    wire::{
        AttemptList, Bounds, FileSlice, ReadEpoch, SealedObject, Start, TaskDescriptor, Value,
        WriteTask, sealed_object::Kind,
    },
};
use coffer_sealing::{
    AttemptId, ExecutionId, KekId, ObjectKind, Partition, RunId, SessionId, StageId, identity,
    open_message, open_object, sha256, split_execution,
};
use prost::Message;

use crate::{
    horizon::Horizon,
    session::{PlanKey, Session},
    task::{check::Check, input::Rectangle},
};

/// Where a task is, by START's word until its descriptor opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskIdentity {
    pub(crate) session: SessionId,
    pub(crate) stage: StageId,
    pub(crate) partition: Partition,
}

/// An opened descriptor of the task that was asked for.
pub(crate) struct Descriptor {
    pub(crate) task_identity: TaskIdentity,
    pub(crate) execution: ExecutionId,
    wire: TaskDescriptor,
    keks: Vec<KekId>,
}

/// One input of a task: what it reads of which stage.
pub(crate) struct Reads {
    pub(crate) producer: StageId,
    /// Of cached rows: which session wrote them, and as what stage.
    pub(crate) cached: Option<(SessionId, StageId)>,
    pub(crate) rectangles: Vec<Rectangle>,
    pub(crate) attempts: Arc<Vec<AttemptId>>,
    /// All streams of the producer, the same in every task.
    pub(crate) broadcast: bool,
    /// In a query that runs here whole: rows are where its own tasks have put them.
    pub(crate) here: bool,
}

/// In a query that runs here whole: by stage that is read, the stage that has made its rows, and
/// the attempts that the tasks of that one were.
pub(crate) type Own = HashMap<u32, (StageId, Arc<Vec<AttemptId>>)>;

/// A checked task.
pub(crate) struct Assignment {
    pub(crate) task_identity: TaskIdentity,
    pub(crate) execution: ExecutionId,
    pub(crate) partitions: u32,
    pub(crate) fragment: Fragment,
    pub(crate) plan_key: PlanKey,
    /// By scan id; every scan of the fragment has an entry.
    pub(crate) scans: HashMap<u32, Vec<FileSlice>>,
    /// By input id; an input of the fragment without an entry has no streams in this task.
    pub(crate) inputs: HashMap<u32, Reads>,
    /// By which lists of attempts it reads its producers.
    pub(crate) epochs: Vec<ReadEpoch>,
    pub(crate) bounds: HashMap<u32, Bounds>,
    pub(crate) values: HashMap<u32, Value>,
    /// Of a fragment that writes a table, and of no other.
    pub(crate) write: Option<WriteTask>,
    /// How what it writes may be packed.
    pub(crate) packing: Packing,
    /// Whether the exchange that it writes is read in this engine.
    pub(crate) in_memory: bool,
    /// Of a query that runs here whole.
    pub(crate) run: Option<RunId>,
    /// By scan: columns of which only rows with these keys come to anything.
    pub(crate) narrowed: HashMap<u32, Vec<(usize, Arc<KeyBounds>)>>,
}

impl Descriptor {
    pub(crate) fn open(
        session: &Session,
        task_identity: TaskIdentity,
        start: &Start,
    ) -> Result<Self, Check> {
        let (execution, sealed) =
            split_execution(&start.sealed_descriptor).ok_or(Check::Malformed("descriptor"))?;
        let identity = identity::descriptor(
            task_identity.session,
            execution,
            task_identity.stage,
            task_identity.partition,
        );
        let plain =
            open_message(&session.key, &identity, sealed).map_err(|source| Check::Opening {
                what: "descriptor",
                source,
            })?;
        let wire =
            TaskDescriptor::decode(plain.as_slice()).map_err(|_| Check::Malformed("descriptor"))?;
        if wire.session.as_ref() != task_identity.session.as_bytes()
            || wire.execution != execution.0
            || wire.stage != task_identity.stage.0
            || wire.partition != task_identity.partition.0
            || wire.partition >= wire.partitions
        {
            return Err(Check::DescriptorIdentity);
        }
        let keks = wire
            .keks
            .iter()
            .map(|id| id.parse().map_err(|_| Check::Malformed("descriptor")))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            task_identity,
            execution,
            wire,
            keks,
        })
    }

    /// Of a query that one engine runs whole: the stages that the task reads, each with the number
    /// of its tasks.
    pub(crate) fn producers(&self) -> impl Iterator<Item = (u32, u32)> {
        let inputs = self.wire.inputs.iter();
        inputs.map(|input| (input.producer_stage, input.producer_maps))
    }

    /// How many tasks its stage has.
    pub(crate) fn partitions(&self) -> u32 {
        self.wire.partitions
    }

    /// By input of the fragment, which stage's rows it has.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = (u32, u32)> {
        let inputs = self.wire.inputs.iter();
        inputs.map(|input| (input.input_id, input.producer_stage))
    }

    /// By scan of the fragment, how many rows the files have of which it reads.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, u64)> {
        let rows = |slices: &[FileSlice]| slices.iter().map(|slice| slice.rows).sum();
        let scans = self.wire.scans.iter();
        scans.map(move |scan| (scan.scan_id, rows(&scan.slices)))
    }

    /// Whether it and a task of another stage do the same with the same rows.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        let (this, that) = (&self.wire, &other.wire);
        this.fragment_sha256 == that.fragment_sha256
            && this.scans == that.scans
            && this.inputs == that.inputs
            && this.objects == that.objects
            && (this.partition, this.partitions) == (that.partition, that.partitions)
            && (this.execution, this.in_memory) == (that.execution, that.in_memory)
            && (&this.write, this.host_chosen) == (&that.write, that.host_chosen)
    }

    /// Whether what is read and written must not depend on how rows go together, as the host may
    /// have chosen some of them.
    pub(crate) fn host_chosen(&self) -> bool {
        self.wire.host_chosen
    }

    /// KEKs that the task's scans need.
    pub(crate) fn keks(&self) -> &[KekId] {
        &self.keks
    }

    /// How old the session was when this was sealed.
    pub(crate) fn session_age(&self) -> Duration {
        Duration::from_millis(self.wire.session_age_millis)
    }

    /// Which of the client engine's sessions have ended. This one lives, or there would be nothing
    /// to do in it.
    pub(crate) fn horizon(&self) -> Result<Horizon, Check> {
        let live = self.wire.live_sessions.iter().copied();
        Horizon::new(self.wire.next_session, live)
            .filter(|horizon| !horizon.has_ended(self.task_identity.session.number()))
            .ok_or(Check::Malformed("descriptor"))
    }

    /// The fragment that the descriptor names, and its digest.
    pub(crate) fn fragment(
        &self,
        session: &Session,
        start: &Start,
    ) -> Result<(Fragment, [u8; 32]), Check> {
        let identity = identity::fragment(self.task_identity.session, self.task_identity.stage);
        let plain =
            open_message(&session.key, &identity, &start.sealed_fragment).map_err(|source| {
                Check::Opening {
                    what: "fragment",
                    source,
                }
            })?;
        let digest = sha256(&plain);
        if self.wire.fragment_sha256.as_ref() != digest {
            return Err(Check::FragmentDigest);
        }
        let fragment =
            Fragment::decode(plain.as_slice()).map_err(|_| Check::Malformed("fragment"))?;
        Ok((fragment, digest))
    }

    /// Opens fragment and objects and checks all against each other. `query`: the run that the task
    /// is of, and what that has written.
    pub(crate) fn assign(
        self,
        session: &Session,
        start: &Start,
        query: Option<(RunId, &Own)>,
    ) -> Result<Assignment, Check> {
        // Alone it would take another's word for what its query has written.
        if self.wire.in_query != query.is_some() {
            return Err(Check::DescriptorIdentity);
        }
        let (fragment, fragment_digest) = self.fragment(session, start)?;
        let objects = Objects::open(session, &self.wire, start)?;

        let mut leaves = Leaves::default();
        if let Some(root) = &fragment.root {
            leaves.gather(root)?;
        }
        check_write(&fragment, self.wire.write.as_ref())?;
        let scans = scans(&self.wire, &leaves)?;
        let inputs = inputs(
            &self.wire,
            &leaves,
            &objects.attempts,
            query.map(|(_, own)| own),
        )?;
        let epochs = epochs(&inputs, &objects.attempts);
        let mut broadcasts: Vec<(u32, Arc<Vec<AttemptId>>)> = inputs
            .iter()
            .filter(|(_, reads)| reads.broadcast)
            .map(|(id, reads)| (*id, Arc::clone(&reads.attempts)))
            .collect();
        broadcasts.sort_unstable_by_key(|(id, _)| *id);
        Ok(Assignment {
            task_identity: self.task_identity,
            execution: self.execution,
            partitions: self.wire.partitions,
            plan_key: PlanKey {
                fragment: fragment_digest,
                objects: objects.digests,
                broadcasts,
                partitions: self.wire.partitions,
            },
            fragment,
            scans,
            inputs,
            epochs,
            bounds: objects.bounds,
            values: objects.values,
            write: self.wire.write,
            in_memory: self.wire.in_memory,
            run: query.map(|(run, _)| run),
            narrowed: HashMap::new(),
            packing: match self.wire.host_chosen {
                true => Packing::None,
                false => Packing::Tight,
            },
        })
    }
}

fn check_write(fragment: &Fragment, write: Option<&WriteTask>) -> Result<(), Check> {
    match (
        fragment.sink.as_ref().and_then(|sink| sink.kind.as_ref()),
        write,
    ) {
        (Some(sink::Kind::Write(sink)), Some(write))
            if sink.partition_columns == write.partition_columns =>
        {
            Ok(())
        }
        (Some(sink::Kind::Write(_)), Some(_)) => Err(Check::Write("partition columns")),
        (Some(sink::Kind::Write(_)), None) => Err(Check::Write("it is missing")),
        (_, Some(_)) => Err(Check::Write("the fragment writes no table")),
        (_, None) => Ok(()),
    }
}

fn scans(
    descriptor: &TaskDescriptor,
    leaves: &Leaves,
) -> Result<HashMap<u32, Vec<FileSlice>>, Check> {
    let mut scans: HashMap<u32, Vec<FileSlice>> =
        leaves.scans.keys().map(|id| (*id, Vec::new())).collect();
    let mut seen = Vec::new();
    for task in &descriptor.scans {
        let id = task.scan_id;
        if seen.contains(&id) {
            return Err(Check::Scan(id));
        }
        seen.push(id);
        *scans.get_mut(&id).ok_or(Check::Scan(id))? = task.slices.clone();
    }
    Ok(scans)
}

fn inputs(
    descriptor: &TaskDescriptor,
    leaves: &Leaves,
    attempts: &HashMap<u32, Listed>,
    own: Option<&Own>,
) -> Result<HashMap<u32, Reads>, Check> {
    let mut inputs: HashMap<u32, Reads> = HashMap::new();
    for task in &descriptor.inputs {
        let id = task.input_id;
        let leaf = leaves.inputs.get(&id).ok_or(Check::Input(id))?;
        if task.map_begin > task.map_end
            || task.map_end > task.producer_maps
            || task.reduce_begin > task.reduce_end
        {
            return Err(Check::Input(id));
        }
        let missing = Check::AttemptsMissing(task.producer_stage);
        let (producer, list) = match own {
            Some(own) => {
                let (producer, list) = own.get(&task.producer_stage).ok_or(missing)?;
                (*producer, list)
            }
            None => {
                let (epoch, list) = attempts.get(&task.producer_stage).ok_or(missing)?;
                if *epoch < task.epoch {
                    return Err(Check::AttemptsStale {
                        stage: task.producer_stage,
                        got: *epoch,
                        seen: task.epoch,
                    });
                }
                (StageId(task.producer_stage), list)
            }
        };
        if usize::try_from(task.producer_maps) != Ok(list.len()) {
            return Err(Check::AttemptsCount(task.producer_stage));
        }
        let cached = match task.cache_session.is_empty() {
            true => None,
            false => {
                let session = SessionId::from_slice(&task.cache_session)
                    .map_err(|_| Check::Malformed("descriptor"))?;
                Some((session, StageId(task.cache_stage)))
            }
        };
        let whole = task.map_begin == 0
            && task.map_end == task.producer_maps
            && task.reduce_begin == 0
            && task.reduce_end == 1;
        if leaf.broadcast && (!whole || cached.is_some() || inputs.contains_key(&id)) {
            return Err(Check::Input(id));
        }
        let reads = inputs.entry(id).or_insert_with(|| Reads {
            producer,
            cached,
            rectangles: Vec::new(),
            attempts: Arc::clone(list),
            broadcast: leaf.broadcast,
            here: own.is_some(),
        });
        if reads.producer != producer || reads.cached != cached {
            return Err(Check::Input(id));
        }
        reads.rectangles.push(Rectangle {
            maps: task.map_begin..task.map_end,
            reduces: task.reduce_begin..task.reduce_end,
        });
    }
    // Of other inputs a task may have no part. A broadcast that is not named would be taken for an
    // empty one.
    match leaves
        .inputs
        .iter()
        .find(|(id, leaf)| leaf.broadcast && !inputs.contains_key(id))
    {
        Some((id, _)) => Err(Check::Input(*id)),
        None => Ok(inputs),
    }
}

fn epochs(inputs: &HashMap<u32, Reads>, attempts: &HashMap<u32, Listed>) -> Vec<ReadEpoch> {
    let stages: BTreeSet<u32> = inputs.values().map(|reads| reads.producer.0).collect();
    let epoch = |stage: u32| attempts.get(&stage).map(|(epoch, _)| *epoch);
    stages
        .into_iter()
        .filter_map(|stage| epoch(stage).map(|epoch| ReadEpoch { stage, epoch }))
        .collect()
}

/// The leaves of a fragment that a descriptor has something to say about.
#[derive(Default)]
pub(crate) struct Leaves<'a> {
    pub(crate) scans: HashMap<u32, &'a Scan>,
    pub(crate) inputs: HashMap<u32, &'a Input>,
}

impl<'a> Leaves<'a> {
    /// Walks a plan. An id that occurs twice is an error: its task could not tell which is meant.
    pub(crate) fn gather(&mut self, node: &'a Node) -> Result<(), Check> {
        match &node.op {
            Some(Op::Scan(scan)) => match self.scans.insert(scan.scan_id, scan) {
                Some(_) => Err(Check::Scan(scan.scan_id)),
                None => Ok(()),
            },
            Some(Op::Input(input)) => match self.inputs.insert(input.input_id, input) {
                Some(_) => Err(Check::Input(input.input_id)),
                None => Ok(()),
            },
            _ => children(node)
                .into_iter()
                .try_for_each(|child| self.gather(child)),
        }
    }
}

/// A list of attempts and its epoch.
type Listed = (u32, Arc<Vec<AttemptId>>);

struct Objects {
    attempts: HashMap<u32, Listed>,
    bounds: HashMap<u32, Bounds>,
    values: HashMap<u32, Value>,
    digests: Vec<[u8; 32]>,
}

impl Objects {
    fn open(session: &Session, descriptor: &TaskDescriptor, start: &Start) -> Result<Self, Check> {
        let mut pins: HashMap<u32, &[u8]> = HashMap::new();
        for pin in &descriptor.objects {
            if pins.insert(pin.id, pin.sha256.as_ref()).is_some() {
                return Err(Check::ObjectForeign(pin.id));
            }
        }
        let mut objects = Self {
            attempts: HashMap::new(),
            bounds: HashMap::new(),
            values: HashMap::new(),
            digests: Vec::new(),
        };
        let mut take_pin = |id: u32, digest: &[u8; 32]| {
            let pin = pins.remove(&id).ok_or(Check::ObjectForeign(id))?;
            if pin == digest {
                Ok(())
            } else {
                Err(Check::ObjectDigest(id))
            }
        };
        let mut lists = Lists::new();
        for sealed in &start.sealed_objects {
            let (kind, plain) =
                open_object(&session.key, session.id, sealed).map_err(|source| Check::Opening {
                    what: "object",
                    source,
                })?;
            let digest = sha256(&plain);
            let object =
                SealedObject::decode(plain.as_slice()).map_err(|_| Check::Malformed("object"))?;
            match (kind, object.kind) {
                (ObjectKind::Attempts, Some(Kind::Attempts(list))) => newest(&mut lists, &list)?,
                (ObjectKind::Bounds, Some(Kind::Bounds(bounds))) => {
                    take_pin(bounds.id, &digest)?;
                    objects.digests.push(digest);
                    objects.bounds.insert(bounds.id, bounds);
                }
                (ObjectKind::Value, Some(Kind::Value(value))) => {
                    take_pin(value.id, &digest)?;
                    objects.digests.push(digest);
                    objects.values.insert(value.id, value);
                }
                _ => return Err(Check::Malformed("object")),
            }
        }
        for (stage, (epoch, attempts)) in lists {
            let attempts = session.accept_attempts(stage, epoch, attempts)?;
            objects.attempts.insert(stage, (epoch, attempts));
        }
        objects.digests.sort_unstable();
        match pins.keys().next() {
            Some(id) => Err(Check::ObjectMissing(*id)),
            None => Ok(objects),
        }
    }
}

/// By stage: epoch and attempts.
type Lists = HashMap<u32, (u32, Vec<AttemptId>)>;

/// Keeps the newest list of each stage: a repeated task brings the list it was sealed with, and the
/// one that counts now.
fn newest(lists: &mut Lists, list: &AttemptList) -> Result<(), Check> {
    let attempts = list
        .attempts
        .iter()
        .map(|id| AttemptId::from_slice(id).map_err(|_| Check::AttemptsCount(list.stage)))
        .collect::<Result<Vec<_>, _>>()?;
    match lists.get(&list.stage) {
        Some((epoch, _)) if *epoch > list.epoch => {}
        Some((epoch, held)) if *epoch == list.epoch && *held != attempts => {
            return Err(Check::AttemptsStale {
                stage: list.stage,
                got: list.epoch,
                seen: *epoch,
            });
        }
        _ => {
            lists.insert(list.stage, (list.epoch, attempts));
        }
    }
    Ok(())
}
