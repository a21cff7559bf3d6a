//! What the tasks of a stage are told: what they read, by which lists of attempts, and with which
//! bounds and values.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use coffer_protocol::{
    plan::Fragment,
    wire::{
        FileSlice, InputTask, ObjectPin, ScanTask, SealStage, StageInput, TaskDescriptor, TaskSpec,
    },
};

use super::{sources::Source, wrong};
use crate::{
    ClientError,
    repeatable::Repeatable,
    session::{Cached, Session},
};

/// Whether bytes that the host may have chosen reach the stage: from its scans, from the stages
/// that it reads, or by way of the driver. That the rows themselves are sealed ones is no matter:
/// which of them meet in a frame may have been chosen too.
pub(super) fn host_chosen(
    session: &Session,
    request: &SealStage,
    sources: &HashMap<u32, Source>,
) -> bool {
    let mut producers = request.inputs.iter().map(|input| input.producer_stage);
    session.opened_host_chosen
        || sources.values().any(|source| source.table.is_host_chosen())
        || producers.any(|stage| {
            session
                .stages
                .exchange(stage)
                .is_some_and(|(held, _)| held.host_chosen)
        })
}

pub(super) fn repeatable(
    session: &Session,
    request: &SealStage,
    fragment: &Fragment,
) -> Repeatable {
    let producers: HashMap<u32, Repeatable> = request
        .inputs
        .iter()
        .filter_map(|input| {
            let (held, _) = session.stages.exchange(input.producer_stage)?;
            Some((input.input_id, held.repeatable))
        })
        .collect();
    Repeatable::of(fragment, &producers)
}

/// Whose the stage's inputs are that are cached rows.
pub(super) fn cached(session: &Session, request: &SealStage) -> impl Iterator<Item = Cached> {
    let inputs = request.inputs.iter();
    inputs.filter_map(|input| session.exchanges.cached(input.producer_stage))
}

/// By producer: the epoch of the list that counts now.
pub(super) fn epochs(session: &Session, request: &SealStage) -> BTreeMap<u32, u32> {
    let producers = request.inputs.iter().map(|input| input.producer_stage);
    let epoch = |stage: u32| {
        session
            .exchanges
            .accepted(stage)
            .map(|accepted| (stage, accepted.epoch))
    };
    producers.filter_map(epoch).collect()
}

pub(super) fn pins(session: &Session, request: &SealStage) -> Result<Vec<ObjectPin>, ClientError> {
    let ids: BTreeSet<u32> = request.objects.iter().copied().collect();
    ids.into_iter()
        .map(|id| {
            let object = session.objects.get(request.stage, id)?;
            Ok(ObjectPin {
                id,
                sha256: object.digest.to_vec().into(),
            })
        })
        .collect()
}

/// The sealed objects of the stage: lists of attempts of all producers, then bounds and values.
pub(super) fn objects(session: &Session, request: &SealStage) -> Result<Vec<Bytes>, ClientError> {
    let producers: BTreeSet<u32> = request
        .inputs
        .iter()
        .map(|input| input.producer_stage)
        .collect();
    let mut sealed = Vec::new();
    // Producers that are run with this stage have no list.
    for accepted in producers
        .into_iter()
        .filter_map(|producer| session.exchanges.accepted(producer))
    {
        sealed.push(accepted.sealed.clone().into());
    }
    let ids: BTreeSet<u32> = request.objects.iter().copied().collect();
    for id in ids {
        let object = session.objects.get(request.stage, id)?;
        sealed.push(object.sealed.clone().into());
    }
    Ok(sealed)
}

pub(super) fn descriptor(
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
            let cached = session.exchanges.cached(input.producer_stage);
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
