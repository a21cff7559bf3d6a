//! What a user learns of tables.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_denied_columns_do_not_leave() {
    let mut tables = Tables::of(Some("ann")).await;
    assert_eq!(tables.scan_other(&["n", "born"], &[]).await.unwrap(), 50);
    denied(tables.scan_other(&["n", "name"], &[]).await, "other.name");
    // The key alone, of a column that the fragment does not read.
    denied(tables.scan_other(&["n"], &["name"]).await, "other.name");
    // No column at all: how many rows there are.
    assert_eq!(tables.scan_other(&[], &[]).await.unwrap(), 50);
    let mut tables = Tables::of(Some("nobody")).await;
    denied(tables.scan_other(&[], &[]).await, "other.*");
    denied(tables.scan_other(&["n"], &[]).await, "other.n");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_stored_encoding_of_a_denied_column_is_of_use() {
    let mut tables = Tables::of(Some("ann")).await;
    let (tee, det, plain) = (
        tables.stored(0, "tee"),
        tables.stored(0, "det"),
        tables.stored(2, "plain"),
    );
    let (ope, std) = (tables.stored(1, "ope"), tables.stored(1, "std"));
    let positions: Vec<StoredColumn> = tables
        .people
        .stored
        .iter()
        .filter(|stored| stored.column == 0)
        .cloned()
        .collect();
    let positions = positions
        .into_iter()
        .filter(|stored| ["file", "row"].contains(&stored.protection.as_str()));
    let allowed: Vec<StoredColumn> = [ope.clone(), std].into_iter().chain(positions).collect();
    assert_eq!(tables.scan_stored(&allowed).await.unwrap(), 50);
    for (stored, column) in [
        (&tee, "people.name"),
        (&det, "people.name"),
        (&plain, "people.born"),
    ] {
        denied(
            tables.scan_stored(&[ope.clone(), stored.clone()]).await,
            column,
        );
    }
    tables.encrypt(&ope, ir::int(7)).await.unwrap();
    denied(
        tables.encrypt(&det, ir::text("person 7")).await,
        "people.name",
    );
    tables.decrypt(&ope).await.unwrap();
    denied(tables.decrypt(&det).await, "people.name");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_engine_reads_no_denied_column_for_the_user_itself() {
    let mut tables = Tables::of(Some("ann")).await;
    tables.read_at_client(&["n", "born"]).await.unwrap();
    denied(tables.read_at_client(&["n", "name"]).await, "other.name");
    let events = tables.events();
    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event.action.as_str(),
                event.code.as_deref(),
                event.tables[0].columns.join(" "),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("open at the client", None, "born n".to_owned()),
            (
                "open at the client",
                Some("denied_column"),
                "name".to_owned()
            ),
        ]
    );
    let mut nobody = Tables::of(Some("nobody")).await;
    denied(nobody.read_at_client(&[]).await, "other.*");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_engine_reads_no_unverified_input_itself() {
    for user in [None, Some("ann"), Some("nobody")] {
        let mut tables = Tables::of(user).await;
        let open = tables.site.folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        let path = open.join("plain.parquet");
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
        let rows = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        let request = OpenTable {
            plain_files: vec![path.to_str().unwrap().to_owned()],
            ..OpenTable::default()
        };
        tables.other = tables.open(request).await.unwrap();
        // By an engine every user reads it.
        assert_eq!(tables.scan_other(&["n"], &[]).await.unwrap(), 50);
        let refused = tables.read_at_client(&["n"]).await.unwrap_err();
        assert_eq!(refused.code, "unverified_input", "{}", refused.message);
        assert!(refused.message.contains("engines"), "{}", refused.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_does_not_learn_what_lies_where_the_owner_may_look() {
    let mut tables = Tables::of(Some("ann")).await;
    let at = |path: &str| {
        tables
            .site
            .folder
            .path()
            .join(path)
            .to_str()
            .unwrap()
            .to_owned()
    };
    let (none, folder, link) = (at("none"), at("config"), at("link"));
    std::os::unix::fs::symlink(at("config"), &link).unwrap();
    let loose = at("loose.parquet");
    std::fs::write(&loose, "no file of a table").unwrap();
    let there = at("people");
    let mut known = Vec::new();
    for path in [&none, &folder, &link, &loose] {
        let as_table = OpenTable {
            path: path.clone(),
            ..OpenTable::default()
        };
        let as_file = OpenTable {
            plain_files: vec![path.clone()],
            ..OpenTable::default()
        };
        for request in [as_table, as_file] {
            let problem = tables.open(request).await.unwrap_err();
            assert!(
                problem.message.contains(path.as_str()),
                "{}",
                problem.message
            );
            known.push((
                problem.code,
                problem.message.replace(path.as_str(), "PATH"),
                problem.hint,
            ));
        }
        let if_there = OpenTable {
            path: path.clone(),
            if_there: true,
            ..OpenTable::default()
        };
        assert_eq!(tables.open(if_there).await.unwrap().handle, 0);
    }
    known.sort();
    known.dedup();
    assert_eq!(known.len(), 2, "{known:#?}");
    let if_there = OpenTable {
        path: there,
        if_there: true,
        ..OpenTable::default()
    };
    assert_ne!(tables.open(if_there).await.unwrap().handle, 0);
    // The owner is told what is the matter.
    let mut owner = Tables::of(None).await;
    let missing = OpenTable {
        path: owner
            .site
            .folder
            .path()
            .join("none")
            .to_str()
            .unwrap()
            .to_owned(),
        ..OpenTable::default()
    };
    assert!(
        owner
            .open(missing)
            .await
            .unwrap_err()
            .message
            .contains("No such file")
    );
}
