//! Sealing a stage: the plugin's request is completed from manifests, checked as a whole, and
//! sealed in one go.

mod checks;
mod descriptors;
mod leaves;
mod sources;

use std::collections::{BTreeSet, HashMap};

use coffer_protocol::{
    padded, padded_bytes,
    plan::Fragment,
    wire::{SealQuery, SealStage, SealedQuery, SealedStage, TaskDescriptor},
};
use coffer_sealing::{
    ExecutionId, KekId, Partition, StageId, identity, seal_message, sha256, with_execution,
};
use prost::Message;

use self::{
    checks::{check_coverage, check_producers, output_of, supported, write_task},
    descriptors::{cached, descriptor, epochs, host_chosen, objects, pins, repeatable},
    leaves::Leaves,
    sources::{Source, for_hosts},
};
use crate::{
    ClientError, Service,
    repeatable::Repeatable,
    session::{Output, Session, Stage},
    table::Opened,
    writes,
};

impl Service {
    pub(crate) fn seal_stage(&self, request: &SealStage) -> Result<SealedStage, ClientError> {
        let session = self.session(&request.session)?;
        let mut session = session.lock();
        let sealed = self.seal(&mut session, request, None)?;
        self.released(&mut session, sealed)
    }

    /// Seals all stages of a query that one engine runs whole.
    pub(crate) fn seal_query(&self, request: &SealQuery) -> Result<SealedQuery, ClientError> {
        let session = self.session(&request.session)?;
        let mut session = session.lock();
        let Some((last, before)) = request.stages.split_last() else {
            return Err(ClientError::Malformed("query"));
        };
        let mut together = BTreeSet::new();
        let mut stages = Vec::with_capacity(request.stages.len());
        for stage in before.iter().chain([last]) {
            if stage.session != request.session || stage.execution != last.execution {
                return Err(wrong(stage.stage, "it is of another run than its query"));
            }
            stages.push(self.seal(&mut session, stage, Some(&together))?);
            let is_exchange = session.stages.exchange(stage.stage).is_some();
            if is_exchange == std::ptr::eq(stage, last) || !together.insert(stage.stage) {
                return Err(wrong(
                    stage.stage,
                    "of a query all stages but the last are exchanges, each once",
                ));
            }
        }
        let last = stages.pop().ok_or(ClientError::Malformed("query"))?;
        stages.push(self.released(&mut session, last)?);
        Ok(SealedQuery { stages })
    }

    /// With the keys of all that the session has read so far.
    fn released(
        &self,
        session: &mut Session,
        sealed: SealedStage,
    ) -> Result<SealedStage, ClientError> {
        let (releases, audited) = self.releases(session)?;
        Ok(SealedStage {
            audit_micros: u64::try_from(audited.as_micros()).unwrap_or(u64::MAX),
            releases,
            ..sealed
        })
    }

    /// `together`: the stages before this one of a query that one engine runs whole.
    fn seal(
        &self,
        session: &mut Session,
        request: &SealStage,
        together: Option<&BTreeSet<u32>>,
    ) -> Result<SealedStage, ClientError> {
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
        check_producers(session, request, &leaves, together)?;
        check_coverage(request, &sources)?;
        self.pin_unverified(session, request, &sources)?;
        let pins = pins(session, request)?;
        let repeatable = repeatable(session, request, &fragment);
        let host_chosen = host_chosen(session, request, &sources);
        let write_task = match &write {
            Some(write) => Some(write_task(stage, &fragment, write)?),
            None => None,
        };

        session.stages.enter(
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
                in_query: together.is_some(),
            },
        )?;
        let mut keks: BTreeSet<KekId> = BTreeSet::new();
        for source in sources.values() {
            session.keys.need(&source.keks);
            let used = source.used.iter().map(String::as_str);
            session.uses.read(&source.table, used, &source.keks);
            keks.extend(&source.ids);
        }
        self.need_planned(session, request);
        if let Some(write) = &write {
            session.keys.need(write.keks());
            session.uses.write(write);
            keks.extend(writes::kek_ids(write));
        }
        keks.extend(cached(session, request).map(|of| KekId::cache(of.session)));
        if let Some(draft) = &mut session.receipt {
            draft.stage(stage, &request.fragment, self.followed.digest());
        }
        let fragment = padded_bytes(request.fragment.to_vec());
        let (next_session, live_sessions) = self.live.lock().sessions.horizon();
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
            in_query: together.is_some(),
            in_memory: request.one_engine && !session.caches && output.is_exchange(),
            keks: keks.iter().map(ToString::to_string).collect(),
            write: write_task,
            ..TaskDescriptor::default()
        };
        let epochs = epochs(session, request);
        let sealed_descriptors = request
            .tasks
            .iter()
            .zip(0u32..)
            .map(|(task, partition)| {
                let descriptor = descriptor(
                    request, &sources, session, task, partition, &epochs, &template,
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
        Ok(SealedStage {
            sealed_fragment: seal_message(&session.key, &fragment_identity, &fragment)?.into(),
            sealed_descriptors,
            sealed_objects: objects(session, request)?,
            indeterminate: repeatable == Repeatable::Not,
            ..SealedStage::default()
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
                session.keys.need(&keks);
                session.uses.read(&table, columns(), &keks);
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
}

fn wrong(stage: u32, what: &'static str) -> ClientError {
    ClientError::Stage { stage, what }
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
