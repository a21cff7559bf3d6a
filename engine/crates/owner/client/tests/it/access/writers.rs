//! Who may write.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_write_a_table_and_has_its_keys_writes_it() {
    let mut ann = Tables::of(Some("ann")).await;
    for mode in [
        Mode::Append,
        Mode::Overwrite,
        Mode::OverwritePartitions,
        Mode::Replace,
    ] {
        denied_write(ann.begin(mode, "other").await);
    }
    denied_write(ann.begin(Mode::Create, "new").await);
    assert!(!ann.site.folder.path().join("new").exists());
    denied_write(ann.drop_other().await);
    // With `write`, and with the keys of all columns through two roles.
    let mut walt = Tables::of(Some("walt")).await;
    assert!(walt.other.denied.is_empty());
    walt.begin(Mode::Append, "other").await.unwrap();
    denied_write(walt.begin(Mode::Create, "made").await);
    let mut lou = Tables::of(Some("lou")).await;
    // Where a role may have tables made, the policy says.
    assert_eq!(
        lou.begin(Mode::Create, "made").await.unwrap_err().code,
        "denied_folder"
    );
    assert!(!lou.site.folder.path().join("made").exists());
    let root = format!(
        "[roles.loader]\nwrite_roots = [{:?}]",
        lou.site.folder.path()
    );
    lou.change_policy("[roles.loader]", &root);
    lou.begin(Mode::Create, "made").await.unwrap();
    // As Spark drops a table: its files first.
    std::fs::remove_dir_all(&lou.other.path).unwrap();
    lou.drop_other().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_write_but_lacks_a_column_does_not() {
    let mut tables = Tables::of(Some("walt")).await;
    let policy = tables.site.config_dir.policy();
    let text = std::fs::read_to_string(&policy).unwrap();
    tables
        .site
        .sign(&text.replace("tables.other = [\"n\", \"born\"]", "tables.other = [\"n\"]"));
    denied(tables.begin(Mode::Append, "other").await, "other.born");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_without_files_takes_the_right_to_write_too() {
    let mut walt = Tables::of(Some("walt")).await;
    let begun = walt.begin(Mode::Overwrite, "other").await.unwrap();
    walt.change_policy("write = [\"other\"]", "");
    denied_write(walt.publish(begun.write).await);
    walt.change_policy(
        "tables.other = [\"name\", \"n\"]",
        "tables.other = [\"name\", \"n\"]\nwrite = [\"other\"]",
    );
    // It is over, whatever the policy says by now.
    assert_eq!(
        walt.publish(begun.write).await.unwrap_err().code,
        "write_unknown"
    );
    let begun = walt.begin(Mode::Overwrite, "other").await.unwrap();
    assert_eq!(walt.publish(begun.write).await.unwrap().version, 2);
    let events = walt.events();
    let shown: Vec<_> = events
        .iter()
        .map(|event| {
            let table = &event.tables[0];
            let of = (
                table.name.as_str(),
                table.version,
                table.columns.len(),
                table.write,
            );
            (event.action.as_str(), event.code.as_deref(), of)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("write", Some("denied_write"), ("other", 0, 0, true)),
            ("write", None, ("other", 2, 3, true)),
        ]
    );
}
