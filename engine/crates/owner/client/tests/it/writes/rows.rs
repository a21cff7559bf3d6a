//! Rows that the driver streams to the client engine, which seals them itself.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    ipc::writer::StreamWriter,
};
use coffer_protocol::wire::{CheckSources, Hello, RowsTaken, SourcesChecked, Welcome, WriteRows};

use super::*;

/// Some rows (k, name) as the driver sends them.
fn arrow(rows: &[(Option<i64>, &str)]) -> Vec<u8> {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.0)));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1)));
    let batch = RecordBatch::try_from_iter([("k", keys), ("name", names)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

async fn send(
    client: &mut Client,
    write: u32,
    arrow: Vec<u8>,
    last: bool,
) -> Result<RowsTaken, Problem> {
    let rows = WriteRows {
        write,
        arrow: arrow.into(),
        last,
        host_chosen: false,
    };
    client.ask(ClientMessage::WriteRows, &rows).await
}

async fn publish(w: &mut Writing, write: u32, streams: u32) -> Result<WritePublished, Problem> {
    let publish = PublishWrite {
        write,
        streams,
        ..PublishWrite::default()
    };
    w.client.ask(ClientMessage::PublishWrite, &publish).await
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_several_connections_are_one_version() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    let mut other = w.site.client().await;
    let first = arrow(&[(Some(1), "ann"), (None, "bob")]);
    let taken = send(&mut w.client, begun.write, first, false)
        .await
        .unwrap();
    assert_eq!(taken.rows, 2);
    let last = arrow(&[(Some(9), "dan")]);
    send(&mut other, begun.write, last, true).await.unwrap();
    let more = arrow(&[(Some(3), "cy")]);
    let taken = send(&mut w.client, begun.write, more, true).await.unwrap();
    assert_eq!(taken.rows, 3);
    let published = publish(&mut w, begun.write, 2).await.unwrap();
    assert_eq!(
        (published.version, published.rows, published.files),
        (1, 4, 2)
    );
    assert_eq!(w.names(), ["ann", "bob", "cy", "dan"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_partition_come_in_any_order() {
    let mut w = Writing::open().await;
    let begun = w.create(&["k"]).await.unwrap();
    let mixed = arrow(&[(Some(2), "a"), (Some(1), "b"), (None, "c"), (Some(2), "d")]);
    send(&mut w.client, begun.write, mixed, false)
        .await
        .unwrap();
    // More partitions than files are open at a time.
    let names: Vec<String> = (0..100).map(|k| format!("n{k:02}")).collect();
    let many = (0..).map(Some).zip(names.iter().map(String::as_str));
    let many = arrow(&many.collect::<Vec<_>>());
    send(&mut w.client, begun.write, many, true).await.unwrap();
    let published = publish(&mut w, begun.write, 1).await.unwrap();
    assert_eq!(published.rows, 104);
    assert!(published.files >= 101, "{}", published.files);
    assert_eq!(w.names().len(), 104);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_come_to_its_end_leaves_nothing() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    let good = arrow(&[(Some(1), "ann")]);
    send(&mut w.client, begun.write, good.clone(), false)
        .await
        .unwrap();
    // No Arrow stream: the stream is over, and its file gone.
    let problem = send(&mut w.client, begun.write, vec![7; 40], false)
        .await
        .unwrap_err();
    assert_eq!(problem.code, "rows");
    assert_eq!(w.files(), 0);
    // A stream that was ended and one that was not: what is published must be all of it.
    send(&mut w.client, begun.write, good.clone(), true)
        .await
        .unwrap();
    let problem = publish(&mut w, begun.write, 2).await.unwrap_err();
    assert_eq!(problem.code, "row_streams");
    assert!(!w.folder().exists());
    let problem = send(&mut w.client, begun.write, good.clone(), true)
        .await
        .unwrap_err();
    assert_eq!(problem.code, "write_unknown");
    // A stream of one write is none of another's.
    let begun = w.create(&[]).await.unwrap();
    send(&mut w.client, begun.write, good.clone(), false)
        .await
        .unwrap();
    let problem = send(&mut w.client, begun.write + 1, good, false)
        .await
        .unwrap_err();
    assert_eq!(problem.code, "protocol");
    assert_eq!(w.files(), 0);
    let abort = AbortWrite { write: begun.write };
    let _: WriteAborted = w
        .client
        .ask(ClientMessage::AbortWrite, &abort)
        .await
        .unwrap();
    assert!(!w.folder().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_sources_need_executors_of_the_trusted_site() {
    const TRUST: &str = "[driver]\ntrust_executors = true\n";
    for (trust, local_master, network_sealed, want) in [
        (false, true, false, ""),
        (false, false, true, "plain_source"),
        (true, false, false, "executors_in_clear"),
        (true, false, true, ""),
    ] {
        let policy = match trust {
            true => format!("{}{TRUST}", harness::POLICY),
            false => harness::POLICY.to_owned(),
        };
        let site = Site::with_policy(&policy).await;
        let mut client = site.stranger().await;
        let hello = Hello {
            protocol: 1,
            application: "app".to_owned(),
            local_master,
            network_sealed,
            ..Hello::default()
        };
        let _: Welcome = client.ask(ClientMessage::Hello, &hello).await.unwrap();
        let request = CheckSources {
            names: vec!["csv /in".to_owned()],
        };
        let checked: Result<SourcesChecked, Problem> =
            client.ask(ClientMessage::CheckSources, &request).await;
        match checked {
            Ok(_) => assert_eq!(want, ""),
            Err(problem) => {
                assert_eq!(problem.code, want);
                assert!(problem.message.contains("csv /in"), "{}", problem.message);
            }
        }
    }
}
