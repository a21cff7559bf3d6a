//! `coffer encrypt`: threads take blocks of units, each block becomes one file, and the manifest
//! lists the files in the order of the source. Nothing counts until it is published. Finished files
//! are noted in a journal: the same command goes on where one was interrupted.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use coffer_audit::{Event, TableUse};
use coffer_catalog::{
    Change, Error as TableError, Journal, LinkRecord, Manifest, NewColumns, Register, Resumed,
    TableWrite, TableWriter, VerifiedManifest, open_table, policy,
};
use coffer_custody::{ConfigDir, Keyring, Policy, Vault};
use coffer_format::{ColumnOrder, Digest, SparkType, WriteOptions, WrittenFile};
use indicatif::ProgressBar;
use serde_json::json;

use crate::{
    args::Encrypt,
    audit,
    failure::Failure,
    output, pieces,
    site::{Site, name_of, target},
    source::{self, Source},
};

/// Row groups of one file at most.
const FILE_UNITS: usize = 8;

/// A write, and what it has done already.
struct Begun {
    table: TableWrite,
    journal: Journal,
    /// By block.
    files: HashMap<usize, WrittenFile>,
    goes_on: bool,
}

pub(crate) fn run(site: &Site, args: &Encrypt) -> Result<(), Failure> {
    let started = Instant::now();
    let threads = pieces::threads(args.threads);
    let config_dir = site.config_dir()?;
    let (policy, vault) = site.open_config_dir()?;
    let job = source::job(args, threads)?;
    let source = Source::open(args, threads)?;
    let Begun {
        table,
        journal,
        files,
        goes_on,
    } = match args.append {
        true => appended((&config_dir, &vault, &policy), &source, &args.dst, job)?,
        false => created((&config_dir, &vault, &policy), &source, args, job)?,
    };
    let name = table.name().to_owned();
    let event = Event::granted("encrypt").table(TableUse {
        name: name.clone(),
        id: table.table().to_string(),
        version: table.version(),
        columns: table
            .columns()
            .iter()
            .map(|column| column.name.clone())
            .collect(),
        write: true,
        ..TableUse::default()
    });
    if let Err(failure) = audit::note(site, vault.keyring(), event) {
        give_up(table, journal);
        return Err(failure);
    }
    let budget = args
        .memory
        .checked_div(u64::try_from(threads).unwrap_or(1))
        .unwrap_or(args.memory);
    let options = WriteOptions {
        row_group_bytes: usize::try_from(budget).unwrap_or(usize::MAX),
        // A unit is a row group, of up to one and a half times the usual rows.
        row_group_rows: 3 << 19,
        shuffle_rows: args.shuffle_rows,
        packed: true,
    };
    let bar = output::progress(source.rows(), "sealing", false);
    let written = table
        .writer(options)
        .map_err(Failure::from)
        .and_then(|writer| write(&source, &writer, threads, (&journal, &files), &bar));
    bar.finish_and_clear();
    let written = match written {
        Ok(written) => written,
        Err(failure) => {
            give_up(table, journal);
            return Err(failure);
        }
    };
    let ordered = ordered_columns(&table, &written);
    let write = table.id();
    let published = table.publish(written.into_iter().map(|file| file.pin).collect());
    if !matches!(published, Err(TableError::PublicationUnknown { .. })) {
        // One that stays is of no use to anybody.
        let _ = journal.end();
    }
    let sealed = published?;
    if goes_on {
        // Of the time before, what was not finished; `verify --clean` removes it too.
        let _ = TableWrite::remove_strays(&sealed, write);
    }
    if !args.append {
        record(&config_dir, vault.keyring(), &policy, &sealed)?;
    }
    let order = json!({ "ordered_columns": ordered });
    output::made(args.json, "sealed", &name, &sealed, started, order);
    if !ordered.is_empty() {
        eprintln!(
            "warning: the rows lie in the order of `{}`, which tells the host that order",
            ordered.join("`, `")
        );
        eprintln!(
            "hint: --shuffle-rows mixes the rows of each row group; mixing all of them is up to \
                the source"
        );
    }
    Ok(())
}

/// The first failure is what counts; what cannot be removed now, `verify --clean` removes.
fn give_up(table: TableWrite, journal: Journal) {
    let _ = table.abandon();
    let _ = journal.end();
}

fn begun(
    config_dir: &ConfigDir,
    vault: &Vault,
    table: TableWrite,
    job: Digest,
) -> Result<Begun, Failure> {
    match Journal::begin(config_dir, vault.keyring(), &table, job) {
        Ok(journal) => Ok(Begun {
            table,
            journal,
            files: HashMap::new(),
            goes_on: false,
        }),
        Err(error) => {
            let _ = table.abandon();
            Err(error.into())
        }
    }
}

fn going_on(table: TableWrite, journal: Journal, files: Vec<(usize, WrittenFile)>) -> Begun {
    eprintln!(
        "note: an interrupted write of `{}` goes on; {} of its files are there",
        table.name(),
        files.len()
    );
    Begun {
        table,
        journal,
        files: files.into_iter().collect(),
        goes_on: true,
    }
}

fn created(
    (config_dir, vault, policy): (&ConfigDir, &Vault, &Policy),
    source: &Source,
    args: &Encrypt,
    job: Digest,
) -> Result<Begun, Failure> {
    let name = match &args.table {
        Some(name) => name.clone(),
        None => name_of(&args.dst, "DST", "--table")?,
    };
    let columns = NewColumns {
        columns: source.columns().to_vec(),
        ..NewColumns::default()
    };
    let at = (name.as_str(), &*args.dst);
    let resumed = TableWrite::resume(config_dir, vault, policy, at, columns.clone(), job)?;
    if let Some(Resumed {
        write,
        journal,
        files,
    }) = resumed
    {
        return Ok(going_on(write, journal, files));
    }
    let write = TableWrite::create_by_owner(config_dir, vault, policy, &name, &args.dst, columns)?;
    note_links(&write.spellings());
    begun(config_dir, vault, write, job)
}

/// By a link, a path that was not written means the table too: whoever did not mean that must hear
/// of it.
pub(crate) fn note_links(spellings: &[PathBuf]) {
    if let [written, others @ ..] = spellings
        && !others.is_empty()
    {
        let others: Vec<String> = others
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let (written, others) = (written.display(), others.join(", "));
        eprintln!("note: {written} leads by a link to {others}; both mean this table from now on");
    }
}

/// The next version of a table that is there, with the source's rows after its own.
fn appended(
    (config_dir, vault, policy): (&ConfigDir, &Vault, &Policy),
    source: &Source,
    dst: &Path,
    job: Digest,
) -> Result<Begun, Failure> {
    let parent = open_table(config_dir, vault, policy, &target(dst))?;
    let table = parent.manifest();
    if !table.partition_columns.is_empty() {
        return Err(Failure::usage(format!(
            "`{}` is partitioned: rows are appended to it by Spark only",
            parent.name()
        )));
    }
    let has: Vec<(&str, SparkType)> = table
        .columns
        .iter()
        .map(|c| (c.name.as_str(), c.kind.clone()))
        .collect();
    let given: Vec<(&str, SparkType)> = source
        .columns()
        .iter()
        .map(|(name, kind, _)| (name.as_str(), kind.clone()))
        .collect();
    // A text goes into any column of texts that it fits, as with INSERT.
    let values = |columns: &[(&str, SparkType)]| -> Vec<(String, SparkType)> {
        columns
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), kind.of_values()))
            .collect()
    };
    if values(&has) != values(&given) {
        let ddl = |columns: &[(&str, SparkType)]| {
            let columns: Vec<String> = columns
                .iter()
                .map(|(name, kind)| format!("{name} {kind}"))
                .collect();
            columns.join(", ")
        };
        let failure = Failure::usage(format!(
            "`{}` has other columns: {}",
            parent.name(),
            ddl(&has)
        ));
        return Err(failure.hint(format!(
            "the source has {}; --schema says the types of CSV",
            ddl(&given)
        )));
    }
    let rows = table.rows().saturating_add(source.rows());
    if let Some(most) = table
        .stored
        .iter()
        .filter_map(|stored| stored.rows)
        .min()
        .filter(|most| rows > *most)
    {
        let failure = Failure::usage(format!(
            "`{}` would have {rows} rows, and was made for {most}",
            parent.name()
        ));
        return Err(failure.hint(
            "make the table anew under another name, with more `rows` for its ashe \
                columns in the policy",
        ));
    }
    let next = TableWrite::next(config_dir, vault, policy, &parent, Change::Append)?;
    match next.resume_next(config_dir, vault, job)? {
        (write, Some((journal, files))) => Ok(going_on(write, journal, files)),
        (write, None) => begun(config_dir, vault, write, job),
    }
}

/// Gives the policy the entry of a new table, and the links' ids.
pub(crate) fn record(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    before: &Policy,
    sealed: &VerifiedManifest,
) -> Result<(), Failure> {
    let name = sealed.name();
    let path = before
        .table(name)
        .ok()
        .and_then(|table| table.path())
        .unwrap_or(sealed.folder());
    let recorded = policy::record_table(
        config_dir,
        keyring,
        name,
        sealed.manifest().table,
        path,
        sealed.master(),
    );
    recorded.map_err(|error| {
        let failure = Failure::from(error);
        eprintln!("warning: `{name}` is a table now, but the policy could not be given its entry");
        failure
    })?;
    record_links(config_dir, keyring, sealed.manifest()).inspect_err(|_| {
        eprintln!("warning: `{name}` is a table now, but the policy could not be given its links");
    })
}

/// Gives the policy the ids of the links that the table's columns are in.
fn record_links(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    manifest: &Manifest,
) -> Result<(), Failure> {
    let used = |link: &LinkRecord| {
        manifest
            .stored
            .iter()
            .any(|stored| stored.link == Some(link.id))
    };
    for link in Register::of(config_dir, keyring)
        .links()?
        .iter()
        .filter(|link| used(link))
    {
        policy::record_link(config_dir, keyring, &link.name, link.id, &link.master)?;
    }
    Ok(())
}

fn write(
    source: &Source,
    writer: &TableWriter,
    threads: usize,
    (journal, files): (&Journal, &HashMap<usize, WrittenFile>),
    bar: &ProgressBar,
) -> Result<Vec<WrittenFile>, Failure> {
    let units = source.units();
    let block = units.div_ceil(threads.max(1)).clamp(1, FILE_UNITS);
    let blocks = units.div_ceil(block);
    bar.inc(files.values().map(|file| file.pin.rows).sum());
    pieces::each(blocks, threads, |at, failed| {
        if let Some(file) = files.get(&at) {
            return Ok(Some(file.clone()));
        }
        let first = at.saturating_mul(block);
        let last = first.saturating_add(block).min(units);
        let written = write_file(source, writer, first..last, failed, bar)?;
        if let Some(file) = &written {
            journal.note(at, file)?;
        }
        Ok(written)
    })
}

/// None if another thread failed meanwhile.
fn write_file(
    source: &Source,
    writer: &TableWriter,
    units: std::ops::Range<usize>,
    failed: &AtomicBool,
    bar: &ProgressBar,
) -> Result<Option<WrittenFile>, Failure> {
    let mut file = writer.file()?;
    for unit in units {
        if failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        source.read(unit, writer.schema(), &mut |batch| {
            bar.inc(u64::try_from(batch.num_rows()).unwrap_or(0));
            Ok(file.write(&writer.fit(&batch)?)?)
        })?;
        file.end_row_group()?;
    }
    Ok(Some(file.finish()?))
}

/// Columns in whose order every file lies, the same way.
fn ordered_columns(table: &TableWrite, written: &[WrittenFile]) -> Vec<String> {
    let order_of = |at: usize| -> Option<ColumnOrder> {
        let mut orders = written
            .iter()
            .map(|file| file.order.get(at).copied().flatten());
        let first = orders.next().flatten()?;
        orders.all(|order| order == Some(first)).then_some(first)
    };
    let columns = table.columns().iter().enumerate();
    columns
        .filter(|(at, _)| order_of(*at).is_some())
        .map(|(_, column)| column.name.clone())
        .collect()
}
