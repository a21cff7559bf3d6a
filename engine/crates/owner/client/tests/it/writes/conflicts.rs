//! Writes that fail, conflict or are given up.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn only_whole_stages_are_published_and_each_once() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    let query = Query::begin(&mut w.client).await;
    let fragment = rows(&[(1, "ann")], vec![]);
    let stage = w.seal(&query, begun.write, &fragment, 2).await.unwrap();
    let outputs = query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    // A commit is missing: the whole write is over, and its files are gone.
    let code = |result: Result<WritePublished, Problem>| result.err().unwrap().code;
    assert_eq!(
        code(w.publish(&query, begun.write, &outputs[..1]).await),
        "commit_count"
    );
    assert_eq!(
        code(w.publish(&query, begun.write, &outputs).await),
        "write_unknown"
    );
    assert!(!w.folder().exists());

    for wrong in 0..3 {
        let begun = w.create(&[]).await.unwrap();
        let query = Query::begin(&mut w.client).await;
        let stage = w.seal(&query, begun.write, &fragment, 2).await.unwrap();
        let mut outputs = query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
        let want = match wrong {
            0 => {
                outputs.swap(0, 1);
                "commit_opening_tag"
            }
            1 => {
                outputs[1] = outputs[0].clone();
                "commit_opening_tag"
            }
            _ => {
                let part = fs::read_dir(w.folder())
                    .unwrap()
                    .next()
                    .unwrap()
                    .unwrap()
                    .path();
                fs::write(part, b"short").unwrap();
                "file_length"
            }
        };
        assert_eq!(code(w.publish(&query, begun.write, &outputs).await), want);
        assert!(!w.folder().exists());
    }

    // A task that ran twice: the record that the driver picked counts, the other's file goes.
    let begun = w.create(&[]).await.unwrap();
    let query = Query::begin(&mut w.client).await;
    let stage = w.seal(&query, begun.write, &fragment, 2).await.unwrap();
    query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    let outputs = query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    assert_eq!(w.files() + 1, 2, "one file of each attempt");
    w.publish(&query, begun.write, &outputs).await.unwrap();
    assert_eq!((w.names(), w.files()), (vec!["ann".to_owned()], 1));
    // Another write cannot take the same stage again.
    let info = w.info().await;
    let begun = w.next(Mode::Append, info.handle).await.unwrap();
    assert_eq!(
        code(w.publish(&query, begun.write, &outputs).await),
        "stage_unknown"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_given_up_writes_and_failed_tasks() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    assert_eq!(
        w.create(&[]).await.err().unwrap().code,
        "table_unfinished",
        "it is being made"
    );
    w.write(begun.write, &rows(&[(1, "ann")], vec![]))
        .await
        .unwrap();
    assert_eq!(
        w.create(&[]).await.err().unwrap().code,
        "table",
        "it is there"
    );

    let info = w.info().await;
    let (one, two) = (
        w.next(Mode::Append, info.handle).await.unwrap(),
        w.next(Mode::Append, info.handle).await.unwrap(),
    );
    w.write(one.write, &rows(&[(2, "bob")], vec![]))
        .await
        .unwrap();
    let lost = w
        .write(two.write, &rows(&[(3, "cy")], vec![]))
        .await
        .err()
        .unwrap();
    assert_eq!(lost.code, "write_conflict");
    assert!(
        lost.message.contains("version 1") && lost.message.contains("version 2"),
        "{}",
        lost.message
    );
    assert_eq!(
        (w.names(), w.files()),
        (vec!["ann".to_owned(), "bob".to_owned()], 2)
    );

    // Given up after its tasks were done.
    let info = w.info().await;
    let begun = w.next(Mode::Overwrite, info.handle).await.unwrap();
    let query = Query::begin(&mut w.client).await;
    let stage = w
        .seal(&query, begun.write, &rows(&[(4, "dan")], vec![]), 1)
        .await
        .unwrap();
    query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    assert_eq!(w.files(), 3);
    let abort = AbortWrite { write: begun.write };
    let _: WriteAborted = w
        .client
        .ask(ClientMessage::AbortWrite, &abort)
        .await
        .unwrap();
    assert_eq!((w.names().len(), w.files()), (2, 2));

    // A task that fails takes its files away itself; NULL where the table has none is Spark's
    // error.
    let mut schema = columns();
    schema.fields[0].nullable = false;
    let begin = BeginWrite {
        mode: Mode::Replace.into(),
        path: w.folder().display().to_string(),
        schema: Some(schema),
        ..BeginWrite::default()
    };
    let begun: WriteBegun = w
        .client
        .ask(ClientMessage::BeginWrite, &begin)
        .await
        .unwrap();
    let null = ir::null(ir::long());
    let fragment = ir::to_table(
        ir::values(
            columns(),
            vec![vec![ir::int(1), ir::text("x")], vec![null, ir::text("y")]],
        ),
        columns(),
        vec![],
    );
    let query = Query::begin(&mut w.client).await;
    let stage = w.seal(&query, begun.write, &fragment, 1).await.unwrap();
    let start = query.start(&stage, 0, &w.engine);
    let error = query
        .error_of(&mut w.client, &mut w.engine, &start, Vec::new())
        .await;
    assert_eq!(error.code, "NOT_NULL_ASSERT_VIOLATION", "{}", error.message);
    assert_eq!(w.files(), 2);
    assert_eq!(w.engine.enclave.memory_in_use(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_client_engines_and_a_manifest_that_comes_back() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    w.write(begun.write, &rows(&[(1, "ann")], vec![]))
        .await
        .unwrap();
    let mut second = w.site.client().await;
    let theirs = second.open(&w.folder()).await.unwrap();
    // The host has something where the next manifest belongs: the write fails, and is told so.
    let next = w.folder().join("_coffer/manifest-0000000002");
    fs::write(&next, b"planted").unwrap();
    let info = w.opened().await;
    assert_eq!(
        info.err().unwrap().code,
        "version_unknown",
        "a manifest that nobody knows"
    );
    fs::remove_file(&next).unwrap();
    let info = w.info().await;
    let begun = w.next(Mode::Append, info.handle).await.unwrap();
    let query = Query::begin(&mut w.client).await;
    let stage = w
        .seal(&query, begun.write, &rows(&[(2, "bob")], vec![]), 1)
        .await
        .unwrap();
    let outputs = query.run(&mut w.client, &mut w.engine, &stage, &[]).await;
    fs::write(&next, b"planted").unwrap();
    let failed = w
        .publish(&query, begun.write, &outputs)
        .await
        .err()
        .unwrap();
    assert_eq!(failed.code, "version_taken");
    fs::remove_file(&next).unwrap();
    // The other engine publishes from the version that it opened before; and what was told to have
    // failed is tried again.
    let begin = BeginWrite {
        mode: Mode::Overwrite.into(),
        handle: theirs.handle,
        ..BeginWrite::default()
    };
    let begun: WriteBegun = second.ask(ClientMessage::BeginWrite, &begin).await.unwrap();
    let publish = PublishWrite {
        write: begun.write,
        ..PublishWrite::default()
    };
    let published: WritePublished = second
        .ask(ClientMessage::PublishWrite, &publish)
        .await
        .unwrap();
    assert_eq!(published.version, 2);
    let info = w.info().await;
    let begun = w.next(Mode::Append, info.handle).await.unwrap();
    w.write(begun.write, &rows(&[(2, "bob")], vec![]))
        .await
        .unwrap();
    assert_eq!(w.names(), ["bob"]);
}
