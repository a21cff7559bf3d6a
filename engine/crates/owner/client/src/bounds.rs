//! Bounds of a range exchange, picked from all samples and sealed for the engines.

use arrow::array::RecordBatch;
use coffer_expr::CompileContext;
use coffer_plan::{boundary_schema, sample::pick_bounds};
use coffer_protocol::{
    padded,
    plan::Schema,
    wire::{Bounds, BoundsPicked, PickBounds, SealedObject, sealed_object::Kind},
};
use coffer_sealing::{ObjectKind, seal_object, sha256};

use crate::{
    ClientError, opened,
    origins::Origins,
    session::{Object, Output, Session},
};

/// Takes a sample and picks bounds from it, for the stages that will divide their rows by them.
pub(crate) fn pick(
    session: &mut Session,
    request: &PickBounds,
) -> Result<BoundsPicked, ClientError> {
    let stage = session
        .stages
        .collected(request.stage, request.execution, Output::Sample)?;
    if request.sampled_partitions != stage.partitions {
        return Err(ClientError::CommitCount {
            stage: request.stage,
            want: stage.partitions,
            got: request.samples.len(),
        });
    }
    let schema = request.schema.clone().unwrap_or_default();
    let arrow = boundary_schema(&schema)?;
    let sealed = opened::take(
        session,
        request.stage,
        request.execution,
        &stage,
        &request.samples,
        false,
    )?;
    let mut batches: Vec<RecordBatch> = Vec::new();
    for stream in sealed {
        batches.extend(stream.open(&arrow)?);
    }
    let partitions = usize::try_from(request.partitions).unwrap_or(usize::MAX);
    let rows = pick_bounds(
        &batches,
        &request.keys,
        partitions,
        &CompileContext::default(),
    )?;
    let count = u32::try_from(rows.len()).map_err(|_| ClientError::Malformed("PICK_BOUNDS"))?;
    let mut keys = schema.fields;
    keys.pop(); // the weight
    let id = request.bounds_id;
    let plain = padded(&SealedObject {
        kind: Some(Kind::Bounds(Bounds {
            id,
            schema: Some(Schema { fields: keys }),
            rows,
        })),
    });
    let object = Object {
        origins: Origins::default(),
        digest: sha256(&plain),
        sealed: seal_object(&session.key, session.id, ObjectKind::Bounds, &plain)?,
    };
    session.objects.set(id, object)?;
    Ok(BoundsPicked { bounds: count })
}
