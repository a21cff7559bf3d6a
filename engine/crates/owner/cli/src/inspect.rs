//! `coffer inspect`

use std::path::{Path, PathBuf};

use coffer_catalog::{Envelope, MANIFEST_FOLDER, Manifest, Target, VerifiedManifest};
use coffer_format::{Direct, Error as FormatError, StoredColumn, folder::Folder};
use serde_json::json;

use crate::{
    args::Inspect,
    failure::Failure,
    output,
    site::{self, Site},
    store,
};

/// No manifest that was ever published is longer.
const MANIFEST_MOST: u64 = 64 << 20;

pub(crate) fn run(site: &Site, args: &Inspect) -> Result<(), Failure> {
    let target = site::target(&args.table);
    let with_key = args.unlock || site.given_passphrase()?.is_some();
    if with_key {
        return show(&site.open(&target)?, args.json);
    }
    let folder = match target {
        Target::Path(folder) => Some(folder),
        Target::Typed(text) => Some(PathBuf::from(text)).filter(|folder| folder.exists()),
        Target::Name(_) => None,
    };
    let Some(folder) = folder else {
        return Err(
            Failure::usage("without a passphrase a table is found by its folder only").hint(
                "name the folder, or give the passphrase (--passphrase-file, \
                    COFFER_PASSPHRASE, --unlock)",
            ),
        );
    };
    show_closed(&folder, args.json)
}

/// What anyone who holds the files can see.
fn show_closed(path: &Path, as_json: bool) -> Result<(), Failure> {
    let not_a_table = || Failure::from(coffer_catalog::Error::NotATable(path.to_owned()));
    let folder = match Folder::<Direct>::at(path, Some(&store::reach())) {
        Err(FormatError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Err(not_a_table());
        }
        folder => folder?,
    };
    let manifests = Path::new(MANIFEST_FOLDER);
    let mut newest = names(&folder, manifests)?;
    newest.retain(|name| name.starts_with("manifest-"));
    let newest = newest.pop().ok_or_else(not_a_table)?;
    let bytes = folder.read(&manifests.join(newest), MANIFEST_MOST)?;
    let (envelope, _) = Envelope::parse(&bytes.ok_or_else(not_a_table)?)?;
    let mut names = names(&folder, Path::new(""))?;
    names.retain(|name| !name.starts_with(['_', '.']));
    let paths: Vec<&Path> = names.iter().map(Path::new).collect();
    let lengths = folder.lengths(&paths)?;
    let files: Vec<(String, u64)> = names
        .iter()
        .zip(lengths)
        .filter_map(|(name, length)| Some((name.clone(), length?)))
        .collect();
    let total: u64 = files.iter().map(|(_, size)| size).sum();
    if as_json {
        output::json(&json!({
            "table": envelope.table.to_string(),
            "version": envelope.version,
            "master": envelope.master,
            "verified": false,
            "bytes": total,
            "files": files.iter().map(|(name, size)|
                json!({ "path": name, "size": size })).collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    println!("table    {}", envelope.table);
    println!("version  {}", envelope.version);
    println!("master   {}", envelope.master);
    println!("files    {} ({})", files.len(), output::size(total));
    println!();
    let mut rows = vec![vec!["file".to_owned(), "size".to_owned()]];
    rows.extend(
        files
            .into_iter()
            .map(|(name, size)| vec![name, output::size(size)]),
    );
    print!("{}", output::table(&rows));
    eprintln!(
        "Nothing of this was verified: no key was used. Schema and rows show with the passphrase."
    );
    Ok(())
}

/// The files in an inner folder, in order; those of one that is not there are none.
fn names(folder: &Folder<Direct>, inner: &Path) -> Result<Vec<String>, Failure> {
    let names = folder.names(inner)?.into_iter();
    let mut names: Vec<String> = names
        .filter(|(_, is_folder)| !is_folder)
        .map(|(name, _)| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

fn show(table: &VerifiedManifest, as_json: bool) -> Result<(), Failure> {
    let manifest = table.manifest();
    let bytes = manifest.column_bytes();
    let kek_id = |name: &str| {
        let id = table.kek_id(name).map_err(Failure::from)?;
        Ok::<_, Failure>(id.map(|id| id.to_string()))
    };
    let in_files = manifest.file_column_bytes();
    let stored = || manifest.stored.iter().zip(&in_files);
    if as_json {
        let mut columns = Vec::new();
        for (column, bytes) in manifest.columns.iter().zip(&bytes) {
            columns.push(json!({
                "name": column.name, "type": column.kind.to_string(), "nullable": column.nullable,
                "protection": column.protection.to_string(), "kek_id": kek_id(&column.name)?,
                    "bytes": bytes,
            }));
        }
        let stored = stored().map(|(stored, bytes)| {
            json!({
                "name": stored.name(), "column": column_name(manifest, stored),
                    "form": stored.encoding.name(),
                "type": stored.kind.to_string(), "link": stored.link.map(|link| link.to_string()),
                    "bytes": bytes,
            })
        });
        let files = manifest.files.iter().map(|file| {
            json!({ "path": file.path, "size": file.size, "rows": file.rows,
                "row_groups": file.row_groups.len() })
        });
        output::json(&json!({
            "table": manifest.table.to_string(),
            "name": table.name(),
            "version": manifest.version,
            "manifest_sha256": hex::encode(table.hash().as_bytes()),
            "master": table.master(),
            "verified": true,
            "rows": manifest.rows(),
            "bytes": manifest.bytes(),
            "columns": columns,
            "stored": stored.collect::<Vec<_>>(),
            "files": files.collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    println!("name     {}", table.name());
    println!("table    {}", manifest.table);
    println!("version  {}", manifest.version);
    println!("master   {}", table.master());
    println!("rows     {}", manifest.rows());
    println!(
        "files    {} ({})",
        manifest.files.len(),
        output::size(manifest.bytes())
    );
    println!();
    let mut rows = vec![
        ["column", "type", "nullable", "protection", "stored", "KEK"]
            .map(String::from)
            .to_vec(),
    ];
    for (column, bytes) in manifest.columns.iter().zip(&bytes) {
        rows.push(vec![
            column.name.clone(),
            column.kind.to_string(),
            if column.nullable { "yes" } else { "no" }.to_owned(),
            column.protection.to_string(),
            output::size(*bytes),
            kek_id(&column.name)?.unwrap_or_default(),
        ]);
    }
    print!("{}", output::table(&rows));
    if manifest.stored.is_empty() {
        return Ok(());
    }
    println!();
    let mut rows = vec![
        ["in the files", "of column", "as", "type", "stored"]
            .map(String::from)
            .to_vec(),
    ];
    for (stored, bytes) in stored() {
        rows.push(vec![
            stored.name(),
            column_name(manifest, stored).unwrap_or_default().to_owned(),
            stored.encoding.name().to_owned(),
            stored.kind.to_string(),
            output::size(*bytes),
        ]);
    }
    print!("{}", output::table(&rows));
    Ok(())
}

fn column_name<'a>(manifest: &'a Manifest, stored: &StoredColumn) -> Option<&'a str> {
    let column = manifest
        .columns
        .iter()
        .find(|column| column.id == stored.column)?;
    Some(&column.name)
}
