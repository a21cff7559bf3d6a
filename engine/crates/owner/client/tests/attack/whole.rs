//! A host that is given a query whole: it leaves parts out, doubles and exchanges them, brings
//! those of another query, flips bits, and mixes results.

use std::collections::HashMap;

use bytes::Bytes;
use coffer_protocol::wire::{Failed, QueryStage, RunQuery, Start};
use coffer_proxy::rng::Rng;

use crate::{
    harness::{Client, Ended, Engine, Site, query::Query},
    scenarios::End,
    shape::Shape,
};

/// Partitions of the result.
const PARTS: u32 = 3;
const STAGES: [u32; 3] = [1, 2, 3];

struct Whole {
    client: Client,
    engine: Engine,
    shape: Shape,
    query: Query,
    run: RunQuery,
    /// Of another query of the same shape.
    other: RunQuery,
}

/// Streams and commit records of the result.
type Ran = Vec<(Bytes, Bytes)>;

pub(crate) async fn play(name: &str, rng: &mut Rng) -> End {
    let site = Site::open().await;
    let mut client = site.client().await;
    let mut engine = site.engine("engine", 64 << 20).await;
    engine.admit(&mut client).await.unwrap();
    let shape = match rng.coin() {
        true => Shape::Sums,
        false => Shape::Joined,
    };
    let mut sealed = Vec::new();
    for _ in 0..2 {
        let query = Query::begin(&mut client).await;
        let stages = query.seal_whole(&mut client, shape.stages()).await.unwrap();
        sealed.push((query.run_whole(&engine, &STAGES, &stages), query));
    }
    let (other, _) = sealed.pop().unwrap();
    let (run, query) = sealed.pop().unwrap();
    let mut whole = Whole {
        client,
        engine,
        shape,
        query,
        run,
        other,
    };
    match name {
        "whole-query-of-two-runs" => whole.mixed(rng).await,
        "whole-query-result-without-a-partition" => whole.cut(rng).await,
        "whole-query-task-alone" => whole.alone(rng).await,
        _ => {
            whole.alter(name, rng);
            match whole.ran().await {
                Ok(ran) => whole.opened(ran).await,
                Err(code) => End::Detected(code),
            }
        }
    }
}

impl Whole {
    fn alter(&mut self, name: &str, rng: &mut Rng) {
        let stages = self.run.stages.len();
        let at = rng.below(stages);
        let task = rng.below(self.run.stages[at].sealed_descriptors.len());
        match name {
            "whole-query-without-a-stage" => drop(self.run.stages.remove(at)),
            "whole-query-with-a-stage-twice" => {
                let again = self.run.stages[at].clone();
                self.run.stages.insert(rng.below(stages), again);
            }
            // The last one reads all others, directly or not.
            "whole-query-in-another-order" => self.run.stages.swap(rng.below(2), 2),
            "whole-query-without-a-task" => {
                drop(self.run.stages[at].sealed_descriptors.remove(task));
            }
            "whole-query-with-a-task-twice" => {
                let descriptors = &mut self.run.stages[at].sealed_descriptors;
                let again = descriptors[task].clone();
                match rng.coin() {
                    true => descriptors.insert(task, again),
                    false => {
                        let place = (task + 1) % descriptors.len();
                        descriptors[place] = again;
                    }
                }
            }
            "whole-query-with-parts-of-another-query" => {
                let foreign = self.other.stages[at].clone();
                part_of(&mut self.run.stages[at], &foreign, task, rng);
            }
            "whole-query-with-parts-of-another-stage" => {
                let foreign = self.run.stages[(at + 1) % stages].clone();
                part_of(&mut self.run.stages[at], &foreign, 0, rng);
            }
            _ => {
                let stage = &mut self.run.stages[at];
                let bytes = match rng.coin() {
                    true => &mut stage.sealed_fragment,
                    false => &mut stage.sealed_descriptors[task],
                };
                let mut flipped = bytes.to_vec();
                let place = rng.below(flipped.len());
                flipped[place] ^= 1 << rng.below(8);
                *bytes = flipped.into();
            }
        }
    }

    async fn ran(&mut self) -> Result<Ran, String> {
        let run = self.run.clone();
        match self.engine.run_query(&mut self.client, &run).await {
            Ok((streams, done)) => {
                let tasks = done.stages.last().map(|stage| stage.tasks.as_slice());
                let commits = tasks.unwrap_or_default().iter();
                let commits = commits.map(|done| done.sealed_commit.clone());
                Ok(streams.into_values().zip(commits).collect())
            }
            Err(failed) => Err(self.query.code_of(&mut self.client, failed).await),
        }
    }

    async fn opened(&mut self, ran: Ran) -> End {
        let result = self.query.result_of(STAGES[2], ran);
        match self.client.rows(&result).await {
            Ok(batches) if self.shape.rows(&batches) == self.shape.expected() => End::RightRows,
            Ok(_) => End::Wrong("rows".to_owned()),
            Err(problem) => End::Detected(problem.code),
        }
    }

    async fn mixed(&mut self, rng: &mut Rng) -> End {
        let (Ok(mut one), Ok(other)) = (self.ran().await, self.ran().await) else {
            return End::Wrong("an honest run failed".to_owned());
        };
        let at = rng.below(one.len());
        one[at] = other[at].clone();
        self.opened(one).await
    }

    async fn cut(&mut self, rng: &mut Rng) -> End {
        let Ok(mut ran) = self.ran().await else {
            return End::Wrong("an honest run failed".to_owned());
        };
        drop(ran.remove(rng.below(ran.len())));
        let mut result = self.query.result_of(STAGES[2], ran);
        result.partitions = PARTS;
        match self.client.rows(&result).await {
            Ok(_) => End::Wrong("rows".to_owned()),
            Err(problem) => End::Detected(problem.code),
        }
    }

    async fn alone(&mut self, rng: &mut Rng) -> End {
        let at = rng.below(self.run.stages.len());
        let stage = self.run.stages[at].clone();
        let start = Start {
            protocol: 1,
            session: self.run.session.clone(),
            sealed_fragment: stage.sealed_fragment,
            sealed_descriptor: stage.sealed_descriptors[0].clone(),
            sealed_objects: stage.sealed_objects,
            release: self.run.release.clone(),
            stage: stage.stage,
            partition: 0,
        };
        let ended = self
            .engine
            .run(&mut self.client, &start, &HashMap::new())
            .await;
        match ended {
            Ended::Done(_) => End::Wrong("it ran".to_owned()),
            Ended::Failed(failed) => {
                let failed = Failed {
                    stage: stage.stage,
                    ..failed
                };
                End::Detected(self.query.code_of(&mut self.client, failed).await)
            }
        }
    }
}

/// A fragment or a descriptor in the place of a stage's own.
fn part_of(stage: &mut QueryStage, foreign: &QueryStage, task: usize, rng: &mut Rng) {
    match rng.coin() {
        true => stage.sealed_fragment = foreign.sealed_fragment.clone(),
        false => stage.sealed_descriptors[task] = foreign.sealed_descriptors[task].clone(),
    }
}
