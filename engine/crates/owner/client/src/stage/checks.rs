//! What a stage must be before it is sealed: supported, fed by what was sealed, and whole.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::Arc,
};

use coffer_catalog::TableWrite;
use coffer_expr::CompileContext;
use coffer_plan::{BuildContext, build, partitioner::MAX_TARGETS};
use coffer_protocol::{
    plan::{Fragment, partitioning, sink},
    wire::{SealStage, TaskSpec, WriteTask},
};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::expressions::Literal;

use super::{leaves::Leaves, sources::Source, wrong};
use crate::{
    ClientError, CoverageError,
    coverage::{Products, Shape, check_inputs, row_groups},
    session::{Output, Session},
    types::spark_type,
    writes,
};

/// What the fragment writes; what engines cannot write is refused here.
pub(super) fn output_of(
    stage: u32,
    fragment: &Fragment,
    write: u32,
) -> Result<Output, ClientError> {
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
pub(super) fn write_task(
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
pub(super) fn supported(fragment: &Fragment, partitions: usize) -> Result<(), ClientError> {
    let expressions = CompileContext::with_subqueries(|_, data_type| {
        let null = ScalarValue::try_from(data_type).ok()?;
        Some(Arc::new(Literal::new(null)) as _)
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

/// What tasks read together is what there is.
pub(super) fn check_coverage(
    request: &SealStage,
    sources: &HashMap<u32, Source>,
) -> Result<(), ClientError> {
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
        let of = |task: &TaskSpec| -> Vec<(u32, Range<u32>)> {
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
        let mut slices: BTreeMap<u32, Vec<Range<u32>>> = BTreeMap::new();
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
/// accepted, or are run with this one.
pub(super) fn check_producers(
    session: &Session,
    request: &SealStage,
    leaves: &Leaves,
    together: Option<&BTreeSet<u32>>,
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
            .stages
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
        // Of a query that one engine runs whole there is nothing to accept: its run counts what it
        // wrote itself, and knows of no other stage.
        let written = match together {
            Some(together) => together.contains(&producer),
            None => session.exchanges.accepted(producer).is_some(),
        };
        if !written {
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
