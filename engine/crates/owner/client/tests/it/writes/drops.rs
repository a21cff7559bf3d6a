//! Tables that are dropped.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_table_is_forgotten_by_register_and_policy() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    w.write(begun.write, &rows(&[(1, "ann")], vec![]))
        .await
        .unwrap();
    let info = w.info().await;
    let drop = DropTable {
        path: info.path.clone(),
        table_id: info.table_id.clone(),
        name: "t".to_owned(),
        ..DropTable::default()
    };
    let still: Result<TableDropped, Problem> = w.client.ask(ClientMessage::DropTable, &drop).await;
    assert_eq!(still.unwrap_err().code, "table");
    // Asking is no dropping, and a foreign id or folder is not dropped.
    let check = DropTable {
        check: true,
        ..drop.clone()
    };
    let _: TableDropped = w
        .client
        .ask(ClientMessage::DropTable, &check)
        .await
        .unwrap();
    assert!(
        Draft::load(&w.site.config_dir.policy())
            .unwrap()
            .table("t")
            .is_ok()
    );
    for (path, table_id) in [
        ("/elsewhere", &*info.table_id),
        ("s3a:b/t", ""),
        (&info.path, "no id"),
    ] {
        let other = DropTable {
            path: path.to_owned(),
            table_id: table_id.to_owned(),
            ..DropTable::default()
        };
        let refused: Result<TableDropped, Problem> =
            w.client.ask(ClientMessage::DropTable, &other).await;
        assert!(refused.is_err(), "{path}");
    }
    // Nor is one that the catalog calls by another table's name, whether it opens or not.
    let second = BeginWrite {
        mode: Mode::Create.into(),
        path: w.site.folder.path().join("u").display().to_string(),
        name: "u".to_owned(),
        schema: Some(columns()),
        ..BeginWrite::default()
    };
    let begun: WriteBegun = w
        .client
        .ask(ClientMessage::BeginWrite, &second)
        .await
        .unwrap();
    w.write(begun.write, &rows(&[(9, "zoe")], vec![]))
        .await
        .unwrap();
    let by_name = |name: &str| {
        [info.table_id.clone(), String::new()].map(|table_id| DropTable {
            table_id,
            name: name.to_owned(),
            ..check.clone()
        })
    };
    for misled in ["U", "nobody's", ""].into_iter().flat_map(by_name) {
        let refused: Result<TableDropped, Problem> =
            w.client.ask(ClientMessage::DropTable, &misled).await;
        assert_eq!(refused.unwrap_err().code, "other_table", "{}", misled.name);
    }
    // A name that the owner gave it in the catalog is its own: two while that is done, then the new
    // one.
    let rename = |name: &str, to: &str, done| RenameTable {
        path: info.path.clone(),
        name: name.to_owned(),
        to: to.to_owned(),
        done,
        ..RenameTable::default()
    };
    let taken: Result<TableRenamed, Problem> = w
        .client
        .ask(ClientMessage::RenameTable, &rename("t", "U", false))
        .await;
    assert_eq!(taken.unwrap_err().code, "table");
    for (renamed, own, others) in [
        (
            rename("t", "d.one", false),
            &["t", "D.One"][..],
            &["d.two"][..],
        ),
        (
            rename("d.one", "d.two", false),
            &["t", "d.one", "d.two"],
            &[],
        ),
        (rename("d.one", "d.two", true), &["t", "d.two"], &["d.one"]),
    ] {
        let _: TableRenamed = w
            .client
            .ask(ClientMessage::RenameTable, &renamed)
            .await
            .unwrap();
        for (names, is_own) in [(own, true), (others, false)] {
            for asked in names.iter().flat_map(|name| by_name(name)) {
                let answer: Result<TableDropped, Problem> =
                    w.client.ask(ClientMessage::DropTable, &asked).await;
                assert_eq!(answer.is_ok(), is_own, "{}", asked.name);
            }
        }
    }
    // Nor does a new table get a name that this one has in the catalog, whatever its own is to be.
    for taken in ["d.two", "D.Two", "T"] {
        let third = BeginWrite {
            path: w.site.folder.path().join("third").display().to_string(),
            name: taken.to_owned(),
            ..second.clone()
        };
        let refused: Result<WriteBegun, Problem> =
            w.client.ask(ClientMessage::BeginWrite, &third).await;
        assert_eq!(refused.unwrap_err().code, "table", "{taken}");
        let asked = RenameTable {
            path: third.path.clone(),
            name: "third".to_owned(),
            to: taken.to_owned(),
            ..RenameTable::default()
        };
        let refused: Result<TableRenamed, Problem> =
            w.client.ask(ClientMessage::RenameTable, &asked).await;
        assert_eq!(refused.unwrap_err().code, "table", "{taken}");
    }
    fs::remove_dir_all(w.folder()).unwrap();
    let _: TableDropped = w.client.ask(ClientMessage::DropTable, &drop).await.unwrap();
    assert!(
        Draft::load(&w.site.config_dir.policy())
            .unwrap()
            .table("t")
            .is_err()
    );
    let begun = w.create(&[]).await.unwrap();
    assert_ne!(begun.table_id, info.table_id);
    w.write(begun.write, &rows(&[(1, "bob")], vec![]))
        .await
        .unwrap();
    assert_eq!(w.names(), ["bob"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_does_not_open_is_dropped_by_its_folder() {
    let mut w = Writing::open().await;
    let begun = w.create(&[]).await.unwrap();
    w.write(begun.write, &rows(&[(1, "ann")], vec![]))
        .await
        .unwrap();
    let path = w.info().await.path;
    let drop = DropTable {
        path: path.clone(),
        name: "t".to_owned(),
        ..DropTable::default()
    };
    let nowhere = DropTable {
        path: format!("{path}-nowhere"),
        ..DropTable::default()
    };
    // While it is there it stays.
    let still: Result<TableDropped, Problem> = w.client.ask(ClientMessage::DropTable, &drop).await;
    assert_eq!(still.unwrap_err().code, "table");
    fs::remove_dir_all(w.folder()).unwrap();
    let _: TableDropped = w
        .client
        .ask(ClientMessage::DropTable, &nowhere)
        .await
        .unwrap();
    assert!(
        Draft::load(&w.site.config_dir.policy())
            .unwrap()
            .table("t")
            .is_ok()
    );
    let _: TableDropped = w.client.ask(ClientMessage::DropTable, &drop).await.unwrap();
    assert!(
        Draft::load(&w.site.config_dir.policy())
            .unwrap()
            .table("t")
            .is_err()
    );
    w.create(&[]).await.unwrap();
}
