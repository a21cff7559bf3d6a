//! `coffer keys rewrap --data`: every row of a table opened and sealed again, file by file, under a
//! fresh key.

use std::{path::Path, time::Instant};

use coffer_audit::Event;
use coffer_catalog::{
    FileReader, HeldKey, Reencryption, Register, TableRecord, TableWriter, Target,
    VerifiedManifest, open_table,
};
use coffer_custody::KeyContext;
use coffer_format::{FilePin, WriteOptions};
use indicatif::ProgressBar;
use serde_json::json;

use super::{args::Rewrap, rewrap::check_zones};
use crate::{audit, failure::Failure, output, pieces, site::Site};

pub(super) fn run(site: &Site, args: &Rewrap) -> Result<(), Failure> {
    let [name] = args.tables.as_slice() else {
        return Err(Failure::usage("--data re-encrypts one table at a time"));
    };
    let started = Instant::now();
    let (policy, vault) = site.open_config_dir()?;
    let config_dir = site.config_dir()?;
    let table = open_table(&config_dir, &vault, &policy, &Target::Name(name.clone()))?;
    let register = Register::of(&config_dir, vault.keyring());
    if let (Some(to), Some(record)) = (&args.to, register.by_name(name)?) {
        check_zones(&policy, &[held(record)], to)?;
    }
    let master = args.to.as_deref().unwrap_or(table.master()).to_owned();
    let event = Event::granted("keys rewrap --data").detail("to", &master);
    let mut used = audit::used(&table, &[]);
    used.write = true;
    audit::note(site, vault.keyring(), event.table(used))?;
    let work = Reencryption::begin(&config_dir, &vault, &policy, &table, &master)?;
    let threads = pieces::threads(args.threads);
    let bar = output::progress(table.manifest().bytes(), "re-encrypting", true);
    let options = WriteOptions {
        // Row groups end where they ended.
        row_group_rows: usize::MAX,
        ..WriteOptions::default()
    };
    let written = work
        .writer(options)
        .map_err(Failure::from)
        .and_then(|writer| files(&table, &writer, threads, &bar));
    bar.finish_and_clear();
    let written = match written {
        Ok(written) => written,
        Err(failure) => {
            // The first failure is what counts; what cannot be removed now, `verify --clean`
            // removes.
            let _ = work.abandon();
            return Err(failure);
        }
    };
    let sealed = work.publish(&vault, written)?;
    if args.to.is_some() {
        let entry = [(name.clone(), sealed.manifest().table)];
        coffer_catalog::policy::change_masters(&config_dir, vault.keyring(), &entry, &[], &master)?;
    }
    let linked = linked(&sealed);
    let manifest = sealed.manifest();
    if args.json {
        output::json(&json!({
            "name": name, "table": manifest.table.to_string(), "version": manifest.version,
                "master": master,
            "rows": manifest.rows(), "bytes": manifest.bytes(), "files": manifest.files.len(),
            "linked_columns": linked, "seconds": started.elapsed().as_secs_f64(),
        }));
    } else {
        println!(
            "re-encrypted `{name}`: version {}, {} rows, {} files, {}",
            manifest.version,
            manifest.rows(),
            manifest.files.len(),
            output::size(manifest.bytes())
        );
    }
    if !linked.is_empty() {
        eprintln!(
            "warning: `{}` have the key of a link, which other tables have too: it stays the same",
            linked.join("`, `")
        );
        eprintln!(
            "hint: if that key is known to somebody, make the tables anew with a link of another \
                name"
        );
    }
    eprintln!(
        "The old files open under the old key until they are gone: coffer verify --clean {name}, \
            and their copies."
    );
    Ok(())
}

fn held(record: TableRecord) -> HeldKey {
    HeldKey {
        context: KeyContext::Table(record.id),
        name: record.name.clone(),
        paths: record.spellings().map(Path::to_owned).collect(),
        wrapped: record.wrapped(),
        pending: false,
    }
}

/// One new file for each, in the same order.
fn files(
    table: &VerifiedManifest,
    writer: &TableWriter,
    threads: usize,
    bar: &ProgressBar,
) -> Result<Vec<FilePin>, Failure> {
    let pins = &table.manifest().files;
    pieces::each(pins.len(), threads, |at, _| {
        let Some(pin) = pins.get(at) else {
            return Ok(None);
        };
        let written = file(table, writer, pin)?;
        bar.inc(pin.size);
        Ok(Some(written))
    })
}

fn file(table: &VerifiedManifest, writer: &TableWriter, pin: &FilePin) -> Result<FilePin, Failure> {
    let mut file = writer.file_of(pin.partition.clone())?;
    let mut ends = pin.row_groups.iter().scan(0_u64, |rows, group| {
        *rows = rows.saturating_add(group.rows);
        Some(*rows)
    });
    let mut end = ends.next().unwrap_or(u64::MAX);
    let mut rows = 0_u64;
    for batch in FileReader::open(table, pin)? {
        let mut batch = batch?;
        while batch.num_rows() > 0 {
            let left = usize::try_from(end.saturating_sub(rows)).unwrap_or(usize::MAX);
            let take = left.min(batch.num_rows());
            file.write(&batch.slice(0, take))?;
            rows = rows.saturating_add(u64::try_from(take).unwrap_or(0));
            batch = batch.slice(take, batch.num_rows().saturating_sub(take));
            if rows >= end {
                file.end_row_group()?;
                end = ends.next().unwrap_or(u64::MAX);
            }
        }
    }
    Ok(file.finish()?.pin)
}

/// Columns that have a link's key.
fn linked(table: &VerifiedManifest) -> Vec<String> {
    let manifest = table.manifest();
    let has_link = |id: u32| {
        let stored = manifest.stored.iter();
        stored
            .filter(|stored| stored.column == id)
            .any(|stored| stored.link.is_some())
    };
    let columns = manifest.columns.iter().filter(|column| has_link(column.id));
    columns.map(|column| column.name.clone()).collect()
}
