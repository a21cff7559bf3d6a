//! Sealing a stage: the plugin's request is completed from manifests, checked as a whole, and
//! sealed in one go.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use coffer_catalog::TableWrite;
use coffer_expr::CompileContext;
use coffer_plan::{BuildContext, build, partitioner::MAX_TARGETS};
use coffer_protocol::{
    padded, padded_bytes,
    plan::{Fragment, Input, Node, Scan, node::Op, partitioning, sink},
    tree::children,
    wire::{
        FileSlice, InputTask, ObjectPin, ScanTask, SealStage, SealedStage, StageInput,
        TaskDescriptor, TaskSpec, WriteTask,
    },
};
use coffer_sealing::{
    ExecutionId, KekId, KekSet, Partition, StageId, identity, seal_message, sha256, with_execution,
};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::expressions::Literal;
use prost::Message;

use crate::{
    ClientError, CoverageError, Service,
    coverage::{Products, Shape, check_inputs, row_groups},
    prune,
    repeatable::Repeatable,
    session::{Cached, Output, Session, Stage},
    tables::Opened,
    types::spark_type,
    writes,
};

/// One table that a stage reads.
struct Source {
    table: std::sync::Arc<Opened>,
    keks: KekSet,
    ids: Vec<KekId>,
    /// That the scan reads.
    columns: Vec<String>,
    /// Those, and what else it has the keys of.
    used: Vec<String>,
    /// The side of a Cartesian product that it lies below.
    side: u32,
    /// Files that no task is given, as none of their rows can pass.
    unneeded: BTreeSet<u32>,
}

impl Service {
    pub(crate) fn seal_stage(&self, request: &SealStage) -> Result<SealedStage, ClientError> {
        let session = self.session(&request.session)?;
        let mut session = session.lock();
        let stage = request.stage;
        let fragment = Fragment::decode(request.fragment.as_ref())
            .map_err(|_| ClientError::Malformed("fragment"))?;
        let output = output_of(stage, &fragment, request.write)?;
        let write = match output {
            Output::Write(number) => {
                let write = self.write_of(number)?;
                self.may_write(
                    write.name(),
                    write.columns().iter().map(|column| column.name.as_str()),
                )?;
                Some(write)
            }
            _ => None,
        };
        let partitions =
            u32::try_from(request.tasks.len()).map_err(|_| wrong(stage, "too many tasks"))?;
        supported(&fragment, request.tasks.len())?;

        let mut leaves = Leaves::default();
        if let Some(root) = &fragment.root {
            leaves.gather(stage, root)?;
        }
        let read_all = (fragment.hiding.as_ref()).is_some_and(|hiding| hiding.read_all);
        let sources = self.sources(request, &leaves, read_all)?;
        if self.hosts() {
            for_hosts(&leaves, &sources, write.is_some())?;
        }
        check_producers(&session, request, &leaves)?;
        check_coverage(request, &sources)?;
        self.pin_unverified(&mut session, request, &sources)?;
        let pins = pins(&session, request)?;
        let repeatable = repeatable(&session, request, &fragment);
        let host_chosen = host_chosen(&session, request, &sources);
        let write_task = match &write {
            Some(write) => Some(write_task(stage, &fragment, write)?),
            None => None,
        };

        session.enter(
            stage,
            request.execution,
            Stage {
                digest: digest_of(request, output),
                output,
                schema: fragment.output.clone().unwrap_or_default(),
                partitions,
                repeatable,
                objects: request.objects.clone(),
                host_chosen,
            },
        )?;
        let mut keks: BTreeSet<KekId> = BTreeSet::new();
        for source in sources.values() {
            session.need(&source.keks);
            let used = source.used.iter().map(String::as_str);
            let news = session.uses.read(&source.table, used, &source.keks);
            session.unrecorded |= news;
            keks.extend(&source.ids);
        }
        self.need_planned(&mut session, request);
        if let Some(write) = &write {
            session.need(write.keks());
            let news = session.uses.write(write);
            session.unrecorded |= news;
            keks.extend(writes::kek_ids(write));
        }
        keks.extend(cached(&session, request).map(|of| KekId::cache(of.session)));
        let fragment = padded_bytes(request.fragment.to_vec());
        let (next_session, live_sessions) = self.horizon();
        let template = TaskDescriptor {
            session: session.id.as_bytes().to_vec().into(),
            execution: request.execution,
            stage,
            partitions,
            fragment_sha256: sha256(&fragment).to_vec().into(),
            objects: pins,
            next_session,
            live_sessions,
            session_age_millis: session.age_millis(),
            host_chosen,
            in_memory: request.one_engine
                && !session.caches
                && matches!(output, Output::Shuffle(_)),
            keks: keks.iter().map(ToString::to_string).collect(),
            write: write_task,
            ..TaskDescriptor::default()
        };
        let epochs = epochs(&session, request);
        let sealed_descriptors = request
            .tasks
            .iter()
            .zip(0u32..)
            .map(|(task, partition)| {
                let descriptor = descriptor(
                    request, &sources, &session, task, partition, &epochs, &template,
                )?;
                let execution = ExecutionId(request.execution);
                let identity = identity::descriptor(
                    session.id,
                    execution,
                    StageId(stage),
                    Partition(partition),
                );
                let sealed = seal_message(&session.key, &identity, &padded(&descriptor))?;
                Ok(with_execution(execution, &sealed).into())
            })
            .collect::<Result<_, ClientError>>()?;
        let fragment_identity = identity::fragment(session.id, StageId(stage));
        let (releases, audited) = self.releases(&mut session)?;
        Ok(SealedStage {
            audit_micros: u64::try_from(audited.as_micros()).unwrap_or(u64::MAX),
            sealed_fragment: seal_message(&session.key, &fragment_identity, &fragment)?.into(),
            sealed_descriptors,
            sealed_objects: objects(&session, request)?,
            releases,
            indeterminate: repeatable == Repeatable::Not,
        })
    }

    /// What later stages of the query will read, so that one record of the audit log and one
    /// release are enough. What may not be read, or is not there any more, is left to the stage
    /// that asks for it.
    fn need_planned(&self, session: &mut Session, request: &SealStage) {
        for planned in &request.planned {
            let columns = || planned.columns.iter().map(String::as_str);
            let Ok(table) = self.table(planned.handle) else {
                continue;
            };
            if self.may_read(&table, columns()).is_ok()
                && let Ok(keks) = table.keks(columns())
            {
                session.need(&keks);
                session.unrecorded |= session.uses.read(&table, columns(), &keks);
            }
        }
    }

    /// Pins what the query reads of unverified inputs, before a task of it can have run over any of
    /// them: with the first stage that reads one, also what the plugin says that later stages will
    /// read. What was pinned stays so.
    fn pin_unverified(
        &self,
        session: &mut Session,
        request: &SealStage,
        sources: &HashMap<u32, Source>,
    ) -> Result<(), ClientError> {
        let own = sources
            .values()
            .map(|source| (&source.table, source.columns.as_slice()));
        let mut all: Vec<(std::sync::Arc<Opened>, Vec<String>)> = own
            .map(|(table, columns)| (std::sync::Arc::clone(table), columns.to_vec()))
            .collect();
        if all.iter().any(|(table, _)| table.is_unverified()) {
            for later in &request.unverified {
                all.push((self.table(later.handle)?, later.columns.clone()));
            }
        }
        let (began, mut bytes) = (std::time::Instant::now(), 0_u64);
        for (table, columns) in &all {
            if let Opened::Plain(plain) = table.as_ref() {
                let reach = self.config_dir.reach();
                bytes = bytes.saturating_add(session.chunks.pin(plain, columns, reach)?);
            }
        }
        if bytes > 0 {
            let millis = began.elapsed().as_millis();
            tracing::info!(bytes, millis, "unverified inputs were read to be pinned");
        }
        Ok(())
    }

    fn sources(
        &self,
        request: &SealStage,
        leaves: &Leaves,
        read_all: bool,
    ) -> Result<HashMap<u32, Source>, ClientError> {
        let stage = request.stage;
        let mut sources = HashMap::new();
        for asked in &request.scans {
            let scan = leaves
                .scans
                .get(&asked.scan_id)
                .ok_or(wrong(stage, "a scan that the fragment does not have"))?;
            let table = self.table(asked.handle)?;
            let mut columns: BTreeSet<&str> = asked.columns.iter().map(String::as_str).collect();
            for field in scan.schema.iter().flat_map(|schema| &schema.fields) {
                if !table.has(field) {
                    return Err(ClientError::Column {
                        stage,
                        column: field.name.clone(),
                    });
                }
                columns.insert(&field.name);
            }
            self.may_read(&table, columns.iter().copied())?;
            let used = columns.iter().map(ToString::to_string).collect();
            let keks = table.keks(columns)?;
            let ids = keks.iter().map(coffer_sealing::Kek::id).collect();
            let side = asked.side;
            let read = scan.schema.iter().flat_map(|schema| &schema.fields);
            let source = Source {
                keks,
                ids,
                columns: read.map(|field| field.name.clone()).collect(),
                used,
                side,
                unneeded: match read_all {
                    true => BTreeSet::new(),
                    false => prune::unneeded(&table, scan),
                },
                table,
            };
            if sources.insert(asked.scan_id, source).is_some() {
                return Err(wrong(stage, "a scan that is named twice"));
            }
        }
        if sources.len() != leaves.scans.len() {
            return Err(wrong(stage, "a scan of the fragment without a table"));
        }
        Ok(sources)
    }
}

/// Host engines get no key of a column, and no rows of the query's own: what goes to them is as
/// good as in clear.
fn for_hosts(
    leaves: &Leaves,
    sources: &HashMap<u32, Source>,
    writes: bool,
) -> Result<(), ClientError> {
    let mut ids = sources.values().flat_map(|source| &source.ids);
    if ids.any(|id| id.column_id().is_some()) {
        return Err(ClientError::ForHosts("the key of a column"));
    }
    if leaves.values {
        return Err(ClientError::ForHosts("rows that the query brings along"));
    }
    if writes {
        return Err(ClientError::ForHosts("a table to write"));
    }
    Ok(())
}

fn wrong(stage: u32, what: &'static str) -> ClientError {
    ClientError::Stage { stage, what }
}

/// What the fragment writes; what engines cannot write is refused here.
fn output_of(stage: u32, fragment: &Fragment, write: u32) -> Result<Output, ClientError> {
    let shuffle = |partitions: u32| match partitions {
        1..=MAX_TARGETS => Ok(Output::Shuffle(partitions)),
        _ => Err(wrong(
            stage,
            "an exchange of no partitions, or of more than there can be",
        )),
    };
    match fragment.sink.as_ref().and_then(|sink| sink.kind.as_ref()) {
        Some(sink::Kind::Result(_)) => Ok(Output::Result),
        Some(sink::Kind::Sample(_)) => Ok(Output::Sample),
        Some(sink::Kind::Write(_)) => Ok(Output::Write(write)),
        Some(sink::Kind::Broadcast(_)) => Ok(Output::Broadcast),
        Some(sink::Kind::Shuffle(partitioning)) => match &partitioning.kind {
            Some(partitioning::Kind::Hash(hash)) => shuffle(hash.partitions),
            Some(partitioning::Kind::Single(_)) => Ok(Output::Shuffle(1)),
            Some(partitioning::Kind::RoundRobin(robin)) => shuffle(robin.partitions),
            Some(partitioning::Kind::Range(range)) => shuffle(range.partitions),
            None => Err(ClientError::Malformed("fragment")),
        },
        None => Err(ClientError::Malformed("fragment")),
    }
}

/// What is written must be the table's columns, position by position.
fn write_task(
    stage: u32,
    fragment: &Fragment,
    write: &TableWrite,
) -> Result<WriteTask, ClientError> {
    let declared = fragment.output.iter().flat_map(|output| &output.fields);
    let columns = write
        .columns()
        .iter()
        .map(|column| Some(column.kind.of_values()));
    if !columns.eq(declared.map(|field| field.r#type.as_ref().and_then(spark_type))) {
        return Err(wrong(stage, "it writes other columns than the table's"));
    }
    let sink = fragment.sink.as_ref().and_then(|sink| sink.kind.as_ref());
    let partitioned = match sink {
        Some(sink::Kind::Write(sink)) => sink.partition_columns == writes::partition_columns(write),
        _ => false,
    };
    if !partitioned {
        return Err(wrong(
            stage,
            "it writes by other partition columns than the table's",
        ));
    }
    writes::task(write)
}

/// Builds the plan once on this side, so that what engines would refuse is refused before a task
/// starts. Subquery values play no part in what is supported; NULL stands in for them.
fn supported(fragment: &Fragment, partitions: usize) -> Result<(), ClientError> {
    let expressions = CompileContext::with_subqueries(|_, data_type| {
        let null = ScalarValue::try_from(data_type).ok()?;
        Some(std::sync::Arc::new(Literal::new(null)) as _)
    });
    build(
        fragment,
        &BuildContext {
            // A stage of no tasks (a table without files) is still checked.
            partitions: partitions.max(1),
            expressions: &expressions,
            decryptor: None,
        },
    )?;
    Ok(())
}

/// The streams of an exchange outlive its execution, so the execution is no part of what makes such
/// a stage the same. Nor is what other stages of the query read.
fn digest_of(request: &SealStage, output: Output) -> [u8; 32] {
    let mut request = request.clone();
    request.unverified.clear();
    request.planned.clear();
    if output.is_exchange() {
        request.execution = 0;
    }
    sha256(&request.encode_to_vec())
}

/// What tasks read together is what there is.
fn check_coverage(request: &SealStage, sources: &HashMap<u32, Source>) -> Result<(), ClientError> {
    let stage = request.stage;
    let coverage = |source| ClientError::Coverage { stage, source };
    let products = Products::read(&request.products, &request.tasks).map_err(coverage)?;
    check_scans(request, sources, &products)?;
    let shapes: Vec<Shape> = request.inputs.iter().map(Shape::of).collect();
    check_inputs(&shapes, &products, &request.tasks).map_err(coverage)
}

fn check_scans(
    request: &SealStage,
    sources: &HashMap<u32, Source>,
    products: &Products,
) -> Result<(), ClientError> {
    let stage = request.stage;
    let coverage = |source| ClientError::Coverage { stage, source };
    for slice in request.tasks.iter().flat_map(|task| &task.slices) {
        let source = sources
            .get(&slice.scan_id)
            .ok_or_else(|| coverage(CoverageError::Unknown(slice.scan_id)))?;
        if source.table.row_groups(slice.file).is_none() {
            return Err(coverage(CoverageError::Outside(slice.scan_id)));
        }
    }
    for (scan_id, source) in sources {
        let of = |task: &TaskSpec| -> Vec<(u32, std::ops::Range<u32>)> {
            let own = task.slices.iter().filter(|slice| slice.scan_id == *scan_id);
            own.map(|slice| (slice.file, slice.first_row_group..slice.end_row_group))
                .collect()
        };
        let Some(readers) = products
            .readers(*scan_id, source.side, of)
            .map_err(coverage)?
        else {
            continue;
        };
        let mut slices: BTreeMap<u32, Vec<std::ops::Range<u32>>> = BTreeMap::new();
        for (file, range) in readers.into_iter().flatten() {
            slices.entry(file).or_default().push(range);
        }
        for file in 0..source.table.files() {
            let count = source.table.row_groups(file).unwrap_or_default();
            let count = u32::try_from(count).map_err(|_| wrong(stage, "a file too large"))?;
            let read = slices.remove(&file).unwrap_or_default();
            row_groups(*scan_id, count, read).map_err(coverage)?;
        }
    }
    Ok(())
}

/// The stage's inputs are those of its fragment, and the outputs of stages that were sealed and
/// accepted.
fn check_producers(
    session: &Session,
    request: &SealStage,
    leaves: &Leaves,
) -> Result<(), ClientError> {
    let stage = request.stage;
    let mut seen = BTreeSet::new();
    for input in &request.inputs {
        let leaf = leaves
            .inputs
            .get(&input.input_id)
            .ok_or(wrong(stage, "an input that the fragment does not have"))?;
        let producer = input.producer_stage;
        let (held, reduces) = session
            .exchange(producer)
            .ok_or(ClientError::StageUnknown(producer))?;
        if held.partitions != input.maps || reduces != input.reduces {
            return Err(wrong(stage, "an input of another size than its producer"));
        }
        let broadcast = held.output == Output::Broadcast;
        if leaf.broadcast != broadcast || input.broadcast != broadcast {
            return Err(wrong(
                stage,
                "a broadcast that is read as a shuffle, or a shuffle as a broadcast",
            ));
        }
        if !session.accepted.contains_key(&producer) {
            return Err(ClientError::AttemptsMissing { stage, producer });
        }
        let same = leaf.schema.as_ref().is_some_and(|schema| {
            schema.fields.iter().map(|field| &field.r#type).eq(held
                .schema
                .fields
                .iter()
                .map(|field| &field.r#type))
        });
        if !same {
            return Err(wrong(
                stage,
                "an input of other columns than its producer writes",
            ));
        }
        if !seen.insert(input.input_id) {
            return Err(wrong(stage, "an input that is named twice"));
        }
    }
    if seen.len() != leaves.inputs.len() {
        return Err(wrong(stage, "an input of the fragment without a producer"));
    }
    Ok(())
}

/// Whether bytes that the host may have chosen reach the stage: from its scans, from the stages
/// that it reads, or by way of the driver. That the rows themselves are sealed ones is no matter:
/// which of them meet in a frame may have been chosen too.
fn host_chosen(session: &Session, request: &SealStage, sources: &HashMap<u32, Source>) -> bool {
    let mut producers = request.inputs.iter().map(|input| input.producer_stage);
    session.opened_host_chosen
        || sources.values().any(|source| source.table.is_host_chosen())
        || producers.any(|stage| {
            session
                .exchange(stage)
                .is_some_and(|(held, _)| held.host_chosen)
        })
}

fn repeatable(session: &Session, request: &SealStage, fragment: &Fragment) -> Repeatable {
    let producers: HashMap<u32, Repeatable> = request
        .inputs
        .iter()
        .filter_map(|input| {
            let (held, _) = session.exchange(input.producer_stage)?;
            Some((input.input_id, held.repeatable))
        })
        .collect();
    Repeatable::of(fragment, &producers)
}

/// Whose the stage's inputs are that are cached rows.
fn cached(session: &Session, request: &SealStage) -> impl Iterator<Item = Cached> {
    let inputs = request.inputs.iter();
    inputs.filter_map(|input| session.cached.get(&input.producer_stage).copied())
}

/// By producer: the epoch of the list that counts now.
fn epochs(session: &Session, request: &SealStage) -> BTreeMap<u32, u32> {
    let producers = request.inputs.iter().map(|input| input.producer_stage);
    let epoch = |stage: u32| {
        session
            .accepted
            .get(&stage)
            .map(|accepted| (stage, accepted.epoch))
    };
    producers.filter_map(epoch).collect()
}

fn pins(session: &Session, request: &SealStage) -> Result<Vec<ObjectPin>, ClientError> {
    let ids: BTreeSet<u32> = request.objects.iter().copied().collect();
    ids.into_iter()
        .map(|id| {
            let object = session.objects.get(&id).ok_or(ClientError::ObjectUnknown {
                stage: request.stage,
                object: id,
            })?;
            Ok(ObjectPin {
                id,
                sha256: object.digest.to_vec().into(),
            })
        })
        .collect()
}

/// The sealed objects of the stage: lists of attempts of all producers, then bounds and values.
fn objects(session: &Session, request: &SealStage) -> Result<Vec<bytes::Bytes>, ClientError> {
    let producers: BTreeSet<u32> = request
        .inputs
        .iter()
        .map(|input| input.producer_stage)
        .collect();
    let mut sealed = Vec::new();
    for producer in producers {
        let accepted = session
            .accepted
            .get(&producer)
            .ok_or(ClientError::AttemptsMissing {
                stage: request.stage,
                producer,
            })?;
        sealed.push(accepted.sealed.clone().into());
    }
    let ids: BTreeSet<u32> = request.objects.iter().copied().collect();
    for id in ids {
        let object = session.objects.get(&id).ok_or(ClientError::ObjectUnknown {
            stage: request.stage,
            object: id,
        })?;
        sealed.push(object.sealed.clone().into());
    }
    Ok(sealed)
}

fn descriptor(
    request: &SealStage,
    sources: &HashMap<u32, Source>,
    session: &Session,
    task: &TaskSpec,
    partition: u32,
    epochs: &BTreeMap<u32, u32>,
    template: &TaskDescriptor,
) -> Result<TaskDescriptor, ClientError> {
    let mut scans: BTreeMap<u32, Vec<FileSlice>> =
        sources.keys().map(|id| (*id, Vec::new())).collect();
    for slice in task
        .slices
        .iter()
        .filter(|slice| slice.first_row_group < slice.end_row_group)
    {
        let source = sources
            .get(&slice.scan_id)
            .ok_or(wrong(request.stage, "a scan that the stage does not have"))?;
        if source.unneeded.contains(&slice.file) {
            continue;
        }
        let groups = slice.first_row_group..slice.end_row_group;
        let read = source
            .table
            .slice(slice.file, groups, &source.columns, &session.chunks)
            .ok_or(wrong(
                request.stage,
                "a file that the table does not have, or whose name is no text",
            ))?;
        scans.entry(slice.scan_id).or_default().push(read);
    }
    let inputs = task
        .rectangles
        .iter()
        .map(|rectangle| {
            let input: &StageInput = request
                .inputs
                .iter()
                .find(|input| input.input_id == rectangle.input_id)
                .ok_or(wrong(
                    request.stage,
                    "an input that the stage does not have",
                ))?;
            let cached = session.cached.get(&input.producer_stage);
            Ok(InputTask {
                cache_session: cached
                    .map(|of| of.session.as_bytes().to_vec().into())
                    .unwrap_or_default(),
                cache_stage: cached.map_or(0, |of| of.stage),
                input_id: rectangle.input_id,
                producer_stage: input.producer_stage,
                map_begin: rectangle.map_begin,
                map_end: rectangle.map_end,
                reduce_begin: rectangle.reduce_begin,
                reduce_end: rectangle.reduce_end,
                producer_maps: input.maps,
                epoch: epochs
                    .get(&input.producer_stage)
                    .copied()
                    .unwrap_or_default(),
            })
        })
        .collect::<Result<_, ClientError>>()?;
    Ok(TaskDescriptor {
        partition,
        scans: scans
            .into_iter()
            .map(|(scan_id, slices)| ScanTask { scan_id, slices })
            .collect(),
        inputs,
        ..template.clone()
    })
}

/// The fragment's leaves.
#[derive(Default)]
struct Leaves<'a> {
    scans: HashMap<u32, &'a Scan>,
    inputs: HashMap<u32, &'a Input>,
    /// Whether rows come with the fragment.
    values: bool,
}

impl<'a> Leaves<'a> {
    fn gather(&mut self, stage: u32, node: &'a Node) -> Result<(), ClientError> {
        match &node.op {
            Some(Op::Scan(scan)) => match self.scans.insert(scan.scan_id, scan) {
                Some(_) => Err(wrong(stage, "two scans with one id")),
                None => Ok(()),
            },
            Some(Op::Input(input)) => match self.inputs.insert(input.input_id, input) {
                Some(_) => Err(wrong(stage, "two inputs with one id")),
                None => Ok(()),
            },
            Some(Op::Values(values)) => {
                self.values |= !values.rows.is_empty();
                Ok(())
            }
            _ => children(node)
                .into_iter()
                .try_for_each(|child| self.gather(stage, child)),
        }
    }
}
