//! Opening a result: every partition once, then the finish of the plan over the opened rows.

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::SchemaRef;
use coffer_plan::boundary_schema;
use coffer_protocol::{plan::Fragment, wire::OpenResult};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use prost::Message;

use crate::{
    ClientError,
    opened::{self, Sealed},
    origins::Origins,
    reads::Reads,
    result::ResultRows,
    run::{self, run},
    session::{Output, Rows, Shared},
    spark_arrow::Given,
};

/// Takes a result's partitions and opens them; none of its rows is given out before all are open.
pub(crate) fn open(session: &Shared, request: &OpenResult) -> Result<ResultRows, ClientError> {
    let mut session = session.lock();
    let number = request.stage;
    let stage = session
        .stages
        .collected(number, request.execution, Output::Result)?;
    if request.partitions != stage.partitions {
        return Err(ClientError::CommitCount {
            stage: number,
            want: stage.partitions,
            got: request.results.len(),
        });
    }
    let schema = boundary_schema(&stage.schema)?;
    // The finish is checked before anything is taken: what is taken cannot be asked for again.
    let finish = match request.finish.is_empty() {
        true => None,
        false => Some(finish_input(&request.finish, &schema)?),
    };
    let sealed = opened::take(
        &mut session,
        number,
        request.execution,
        &stage,
        &request.results,
        request.partial,
    )?;
    let mut origins = session.results.origins(number, request.execution);
    if request.values {
        origins.merge(number, &session.origins_here()?)?;
    }
    drop(session);
    // Everything is opened before a row is given out: a result is whole or an error.
    let opened = sealed
        .into_iter()
        .map(|sealed: Sealed| sealed.open(&schema))
        .collect::<Result<Vec<_>, _>>()?;
    match finish {
        None => {
            let batches = opened.into_iter().flatten().map(Ok);
            Ok(ResultRows {
                rows: Box::pin(RecordBatchStreamAdapter::new(
                    Arc::clone(&schema),
                    stream::iter(batches),
                )),
                schema,
                given: Given::of(&stage.schema),
                reads: Arc::default(),
                memory: None,
                origins,
                tally: None,
            })
        }
        Some((fragment, input)) => {
            let opened = Rows {
                schema,
                streams: opened,
                origins: Origins::default(),
            };
            run(
                &fragment,
                HashMap::from([(input, opened)]),
                Reads::default(),
                None,
                None,
            )
            .map(|rows| ResultRows { origins, ..rows })
        }
    }
}

/// The finish of a result: its only leaf is an Input of the result's own columns.
fn finish_input(bytes: &[u8], result: &SchemaRef) -> Result<(Fragment, u32), ClientError> {
    let fragment = Fragment::decode(bytes).map_err(|_| ClientError::Malformed("finish"))?;
    match run::only_input(&fragment) {
        Some(input) if run::fits(input, result)? => {
            let id = input.input_id;
            Ok((fragment, id))
        }
        _ => Err(ClientError::Malformed("finish")),
    }
}
