//! One query, as a driver runs it: stages sealed, tasks started, outputs kept by map and target.

use std::collections::HashMap;

use bytes::Bytes;
use coffer_protocol::{
    plan::{Decrypt, Fragment, Node, decrypt, node::Op},
    wire::{
        AcceptCommits, ClientMessage, CommitsAccepted, ErrorDetail, ErrorOpened, Failed,
        NewSession, OpenError, OpenResult, Problem, QueryStage, RunAtClient, RunQuery, SealQuery,
        SealStage, SealedQuery, SealedStage, Session, StageInput, Start, StoredColumn, TableInfo,
        TableScan, TaskResult, TaskSpec,
        run_at_client::ClientInput,
        task_spec::{Rectangle, Slice},
    },
};
use prost::Message;

use super::{Client, Ended, Engine, Output, ir};

pub struct Query {
    pub session: Bytes,
    pub execution: u64,
}

/// A sealed stage.
#[derive(Clone)]
pub struct Stage {
    pub number: u32,
    pub sealed: SealedStage,
}

impl Query {
    pub async fn begin(client: &mut Client) -> Self {
        let session: Session = client
            .ask(ClientMessage::NewSession, &NewSession::default())
            .await
            .unwrap();
        Self {
            session: session.session,
            execution: 11,
        }
    }

    pub async fn seal(&self, client: &mut Client, request: SealStage) -> Result<Stage, Problem> {
        let request = SealStage {
            session: self.session.clone(),
            execution: self.execution,
            ..request
        };
        let number = request.stage;
        let sealed = client.ask(ClientMessage::SealStage, &request).await?;
        Ok(Stage { number, sealed })
    }

    /// START for a task of a stage; with the engine's release, if the stage brought one.
    pub fn start(&self, stage: &Stage, partition: usize, engine: &Engine) -> Start {
        Start {
            protocol: 1,
            session: self.session.clone(),
            sealed_fragment: stage.sealed.sealed_fragment.clone(),
            sealed_descriptor: stage.sealed.sealed_descriptors[partition].clone(),
            sealed_objects: stage.sealed.sealed_objects.clone(),
            release: stage
                .sealed
                .releases
                .iter()
                .find(|release| release.engine_id == engine.id)
                .and_then(|release| release.release.clone()),
            stage: stage.number,
            partition: u32::try_from(partition).unwrap(),
        }
    }

    /// Seals all stages of a query that one engine runs whole.
    pub async fn seal_whole(
        &self,
        client: &mut Client,
        stages: Vec<SealStage>,
    ) -> Result<SealedQuery, Problem> {
        let of = |stage| SealStage {
            session: self.session.clone(),
            execution: self.execution,
            ..stage
        };
        let request = SealQuery {
            session: self.session.clone(),
            stages: stages.into_iter().map(of).collect(),
        };
        client.ask(ClientMessage::SealQuery, &request).await
    }

    /// RUN_QUERY, with the engine's release if sealing brought one. `numbers` are the stages'.
    pub fn run_whole(&self, engine: &Engine, numbers: &[u32], sealed: &SealedQuery) -> RunQuery {
        let mut releases = sealed.stages.iter().flat_map(|stage| &stage.releases);
        RunQuery {
            protocol: 1,
            session: self.session.clone(),
            release: releases
                .find(|release| release.engine_id == engine.id)
                .and_then(|release| release.release.clone()),
            stages: numbers
                .iter()
                .zip(&sealed.stages)
                .map(|(number, stage)| QueryStage {
                    stage: *number,
                    sealed_fragment: stage.sealed_fragment.clone(),
                    sealed_descriptors: stage.sealed_descriptors.clone(),
                    sealed_objects: stage.sealed_objects.clone(),
                })
                .collect(),
            parallel: 2,
        }
    }

    /// The code of a query's failure; the host's word where nothing is sealed.
    pub async fn code_of(&self, client: &mut Client, failed: Failed) -> String {
        if failed.sealed_error.is_empty() {
            return failed.code;
        }
        let request = OpenError {
            session: self.session.clone(),
            stage: failed.stage,
            partition: failed.partition,
            sealed_error: failed.sealed_error,
        };
        let opened: Result<ErrorOpened, Problem> =
            client.ask(ClientMessage::OpenError, &request).await;
        match opened {
            Ok(opened) => opened.detail.unwrap().code,
            Err(problem) => problem.code,
        }
    }

    /// OPEN_RESULT of a stage's partitions, each a stream and its commit record.
    pub fn result_of(&self, stage: u32, parts: Vec<(Bytes, Bytes)>) -> OpenResult {
        OpenResult {
            session: self.session.clone(),
            execution: self.execution,
            stage,
            partitions: u32::try_from(parts.len()).unwrap(),
            results: (0..)
                .zip(parts)
                .map(|(partition, (stream, commit))| TaskResult {
                    partition,
                    stream,
                    commit,
                })
                .collect(),
            ..OpenResult::default()
        }
    }

    /// Runs all tasks of a stage without inputs, or with these, task by task.
    pub async fn run(
        &self,
        client: &mut Client,
        engine: &mut Engine,
        stage: &Stage,
        inputs: &[Vec<u8>],
    ) -> Vec<Output> {
        let mut outputs = Vec::new();
        for partition in 0..stage.sealed.sealed_descriptors.len() {
            let start = self.start(stage, partition, engine);
            let input = inputs.get(partition).map(|bytes| (0, bytes.clone()));
            match engine
                .run(client, &start, &input.into_iter().collect())
                .await
            {
                Ended::Done(output) => outputs.push(output),
                Ended::Failed(failed) => {
                    let detail = self.opened(client, &start, failed).await;
                    panic!("the task failed: {detail:?}");
                }
            }
        }
        outputs
    }

    pub async fn accept(
        &self,
        client: &mut Client,
        stage: u32,
        outputs: &[Output],
    ) -> Result<CommitsAccepted, Problem> {
        let request = AcceptCommits {
            session: self.session.clone(),
            stage,
            maps: u32::try_from(outputs.len()).unwrap(),
            commits: outputs
                .iter()
                .map(|output| output.done.sealed_commit.clone())
                .collect(),
        };
        client.ask(ClientMessage::AcceptCommits, &request).await
    }

    /// Runs one task that must fail inside, and opens its error.
    pub async fn error_of(
        &self,
        client: &mut Client,
        engine: &mut Engine,
        start: &Start,
        input: Vec<u8>,
    ) -> ErrorDetail {
        let inputs: HashMap<u32, Vec<u8>> = [(0, input)].into();
        let failed = match engine.run(client, start, &inputs).await {
            Ended::Failed(failed) => failed,
            Ended::Done(_) => panic!("the task was done"),
        };
        self.opened(client, start, failed).await
    }

    /// What the engine sealed of a failure.
    pub async fn opened(&self, client: &mut Client, start: &Start, failed: Failed) -> ErrorDetail {
        assert_eq!(failed.code, "failed");
        let opened: ErrorOpened = client
            .ask(
                ClientMessage::OpenError,
                &OpenError {
                    session: self.session.clone(),
                    stage: start.stage,
                    partition: start.partition,
                    sealed_error: failed.sealed_error,
                },
            )
            .await
            .unwrap();
        opened.detail.unwrap()
    }

    pub fn result(&self, stage: u32, outputs: &[Output], finish: Option<&Fragment>) -> OpenResult {
        OpenResult {
            session: self.session.clone(),
            execution: self.execution,
            stage,
            partitions: u32::try_from(outputs.len()).unwrap(),
            results: results(outputs),
            finish: finish
                .map(|fragment| fragment.encode_to_vec().into())
                .unwrap_or_default(),
            partial: false,
            keep_bytes: 0,
            values: false,
        }
    }
}

pub fn results(outputs: &[Output]) -> Vec<TaskResult> {
    outputs
        .iter()
        .zip(0..)
        .map(|(output, partition)| TaskResult {
            partition,
            stream: output.streams[&0].clone(),
            commit: output.done.sealed_commit.clone(),
        })
        .collect()
}

/// A stage of so many tasks without inputs.
pub fn leaf_stage(stage: u32, fragment: &Fragment, tasks: usize) -> SealStage {
    SealStage {
        stage,
        fragment: fragment.encode_to_vec().into(),
        tasks: vec![TaskSpec::default(); tasks],
        ..SealStage::default()
    }
}

/// The opening of a stored column, over no rows.
pub fn opening(session: &Bytes, handle: u32, stored: &StoredColumn) -> RunAtClient {
    let output = ir::schema(&[("v", ir::long())]);
    let opened = decrypt::Opened {
        name: "v".to_owned(),
        r#type: Some(ir::long()),
        nullable: true,
        kind: decrypt::Kind::Value.into(),
        handle,
        stored: stored.name.clone(),
        ..decrypt::Opened::default()
    };
    let node = Node {
        id: 1,
        op: Some(Op::Decrypt(Box::new(Decrypt {
            child: Some(Box::new(ir::input(ir::schema(&[(
                "c",
                stored.r#type.clone().unwrap(),
            )])))),
            columns: vec![opened],
        }))),
    };
    RunAtClient {
        session: session.clone(),
        fragment: ir::to_result(node, output).encode_to_vec().into(),
        inputs: vec![ClientInput {
            input_id: 0,
            kept: 0,
        }],
        ..RunAtClient::default()
    }
}

/// A task over some row groups of a scan's first file.
pub fn row_groups(range: std::ops::Range<u32>) -> TaskSpec {
    TaskSpec {
        slices: vec![Slice {
            scan_id: 0,
            file: 0,
            first_row_group: range.start,
            end_row_group: range.end,
        }],
        ..TaskSpec::default()
    }
}

/// What reads columns of a table.
pub fn columns_of(table: &TableInfo, names: &[&str]) -> Fragment {
    let mut schema = table.schema.clone().unwrap();
    schema
        .fields
        .retain(|field| names.contains(&field.name.as_str()));
    ir::to_result(ir::scan(schema.clone()), schema)
}

/// A stage of tasks over one table.
pub fn scan_stage(stage: u32, fragment: &Fragment, handle: u32, tasks: Vec<TaskSpec>) -> SealStage {
    SealStage {
        stage,
        fragment: fragment.encode_to_vec().into(),
        tasks,
        scans: vec![TableScan {
            scan_id: 0,
            handle,
            columns: vec![],
            side: 0,
        }],
        ..SealStage::default()
    }
}

/// A stage with one task for each reduce partition of its producer.
pub fn reduce_stage(
    stage: u32,
    fragment: &Fragment,
    producer: u32,
    maps: u32,
    reduces: u32,
) -> SealStage {
    SealStage {
        stage,
        fragment: fragment.encode_to_vec().into(),
        tasks: (0..reduces)
            .map(|reduce| TaskSpec {
                rectangles: vec![Rectangle {
                    input_id: 0,
                    map_begin: 0,
                    map_end: maps,
                    reduce_begin: reduce,
                    reduce_end: reduce + 1,
                }],
                ..TaskSpec::default()
            })
            .collect(),
        inputs: vec![StageInput {
            input_id: 0,
            producer_stage: producer,
            maps,
            reduces,
            group: 0,
            broadcast: false,
            side: 0,
        }],
        ..SealStage::default()
    }
}

/// What each reduce task is fed: its target's stream of every map, the last map first, for order
/// must not matter.
pub fn feed(outputs: &[Output], reduces: u32) -> Vec<Vec<u8>> {
    (0..reduces)
        .map(|reduce| {
            let streams: Vec<&[u8]> = outputs
                .iter()
                .rev()
                .map(|output| output.streams[&reduce].as_ref())
                .collect();
            streams.concat()
        })
        .collect()
}
