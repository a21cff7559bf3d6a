//! Tables that are not sealed.

use coffer_schemes::Protection;

use super::{
    Check,
    Severity::{Low, Medium},
    found,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "plain-inputs",
        severity: Medium,
        why: "whoever can write there steers what a join lets through, and reads hits from the \
            sizes of what comes out",
        set: "coffer encrypt for these paths, and no entry in unverified_inputs of policy.toml",
        find: |p| {
            let paths = p.policy.as_ref()?.unverified_inputs();
            let names: Vec<_> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            found(
                !names.is_empty(),
                format!(
                    "plain files may be read beside sealed tables: {}",
                    names.join(", ")
                ),
            )
        },
    },
    Check {
        id: "plain-partitions",
        severity: Low,
        why: "the values of these columns are in the clear, in files or, of partition columns, \
            their paths",
        set: "no `plain` for them in policy.toml, and the tables written anew",
        find: |p| {
            let policy = p.policy.as_ref()?;
            let plain: Vec<_> = policy
                .tables()
                .flat_map(|table| {
                    let plain = table
                        .columns()
                        .filter(|(_, column)| column.has(Protection::Plain));
                    plain
                        .map(|(column, _)| format!("{}.{column}", table.name()))
                        .collect::<Vec<_>>()
                })
                .collect();
            found(
                !plain.is_empty(),
                format!("columns in clear: {}", plain.join(", ")),
            )
        },
    },
    Check {
        id: "plain-catalog",
        severity: Medium,
        why: "a catalog that others can write says what a name means: a query of a name that \
            should be a sealed table may be given a plain \
            one, and run in clear",
        set: "spark.sql.catalogImplementation in-memory, or a catalog that only the client site \
            can write",
        find: |p| {
            let hive = p.get("spark.sql.catalogImplementation") == Some("hive")
                || p.get("spark.hadoop.hive.metastore.uris").is_some();
            let catalogs = p
                .beginning("spark.sql.catalog.")
                .filter_map(|(key, _)| key.strip_prefix("spark.sql.catalog."))
                .filter(|name| !name.contains('.'));
            let names: Vec<_> = hive
                .then_some("a Hive metastore")
                .into_iter()
                .chain(catalogs)
                .collect();
            found(
                !names.is_empty(),
                format!("names of tables come from {}", names.join(", ")),
            )
        },
    },
    Check {
        id: "plain-by-default",
        severity: Low,
        why: "save() without format() and CREATE TABLE without USING make plain files of plain \
            rows; of sealed rows they are refused",
        set: "spark.sql.sources.default coffer, and USING coffer in CREATE TABLE",
        find: |p| {
            let source = p.get("spark.sql.sources.default").unwrap_or("parquet");
            found(
                source != "coffer",
                format!("tables are made as {source} unless a query says otherwise"),
            )
        },
    },
    Check {
        id: "plain-scans",
        severity: Medium,
        why: "these queries ran in Spark itself: their values are in executors' memory, disks and \
            traffic",
        set: "coffer encrypt for what they read",
        find: |p| {
            let running = p.running.as_ref()?;
            let (plain, queries) = (running.plain, running.queries);
            found(
                plain > 0,
                format!("{plain} of the {queries} queries that the UI shows have read plain files"),
            )
        },
    },
];
