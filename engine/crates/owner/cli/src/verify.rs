//! `coffer verify`

mod engine;
mod receipt;
mod release;
mod ticks;

use coffer_audit::{Event, TableUse};
use coffer_catalog::{
    Error, Register, TableRecord, Target,
    clean::{self, Cleaned},
    open_table, spelling, unfinished_at, verify,
};
use coffer_custody::{ConfigDir, Policy, Vault};
use coffer_protocol::storage::url;
use serde_json::json;

use crate::{
    args::Verify,
    audit,
    failure::{Exit, Failure},
    output,
    site::{self, Site},
};

pub(crate) fn run(site: &Site, args: &Verify) -> Result<(), Failure> {
    if let Some(address) = &args.engine {
        return engine::run(site, address, args);
    }
    if let Some(folder) = &args.release {
        return release::run(folder, args);
    }
    if let Some(file) = &args.receipt {
        return receipt::run(site, file, args);
    }
    let table = args
        .table
        .as_deref()
        .ok_or_else(|| Failure::usage("no table is named"))?;
    let target = site::target(table);
    let config_dir = site.config_dir()?;
    let (policy, vault) = site.open_config_dir()?;
    record_path(site, &config_dir, (&vault, &policy), args)?;
    let register = Register::of(&config_dir, vault.keyring());
    let table = match open_table(&config_dir, &vault, &policy, &target) {
        Ok(table) => table,
        Err(Error::Unfinished(name)) => {
            let record = register.by_name(&name)?.ok_or(Error::UnknownTable(name))?;
            return unfinished(&config_dir, &register, &record, args);
        }
        Err(error) => {
            // A folder that is gone with its unfinished table: the record is all that is left.
            return match gone(&register, &target)? {
                Some(record) => unfinished(&config_dir, &register, &record, args),
                None => Err(error.into()),
            };
        }
    };
    let bar = output::progress(table.manifest().bytes(), "verifying", true);
    let mut report = verify::verify(&table, args.deep, |bytes| bar.inc(bytes))?;
    bar.finish_and_clear();
    let cleaned = if args.clean {
        clean::clean(&config_dir, &table)?
    } else {
        Cleaned::default()
    };
    let removed = &cleaned.removed;
    report.extra.retain(|file| !removed.contains(file));
    report
        .superseded
        .retain(|(file, _)| !removed.contains(file));
    if args.json {
        let findings = report
            .findings
            .iter()
            .map(|finding| json!({ "file": finding.file, "problem": finding.error.to_string() }));
        output::json(&json!({
            "table": table.manifest().table.to_string(),
            "name": table.name(),
            "version": table.manifest().version,
            "versions_checked": report.versions,
            "files": report.files,
            "rows": table.manifest().rows(),
            "deep": args.deep,
            "sound": report.is_sound(),
            "findings": findings.collect::<Vec<_>>(),
            "extra": report.extra,
            "superseded": report.superseded.iter().map(|(file, _)| file).collect::<Vec<_>>(),
            "removed": removed,
            "being_written": cleaned.writing,
            "being_read": cleaned.reading,
        }));
    } else {
        for finding in &report.findings {
            println!("bad    {}: {}", finding.file, finding.error);
        }
        for file in &report.extra {
            println!("extra  {}", file.display());
        }
        for (file, version) in &report.superseded {
            println!("superseded  {}, last of version {version}", file.display());
        }
        for file in removed {
            println!("removed  {}", file.display());
        }
    }
    if cleaned.writing {
        eprintln!(
            "warning: `{}` is being written; files that no version names were left alone",
            table.name()
        );
    }
    if cleaned.reading {
        eprintln!(
            "warning: a running program has `{}` open; superseded files were left alone",
            table.name()
        );
    }
    if report.is_sound() {
        if !args.json {
            let depth = if args.deep {
                "every page decrypted"
            } else {
                "footers checked"
            };
            println!(
                "sound: `{}`, version {}, {} files, {} rows, {depth}",
                table.name(),
                table.manifest().version,
                report.files,
                table.manifest().rows(),
            );
        }
        return Ok(());
    }
    let bad = report.findings.len();
    let failure = Failure::new(
        Exit::Check,
        format!(
            "{bad} problems and {} files that are not the table's",
            report.extra.len()
        ),
    );
    Err(
        match report
            .findings
            .first()
            .and_then(|finding| finding.error.hint())
        {
            Some(hint) => failure.hint(hint),
            None => failure.hint(
                "extra files are never read; --clean removes those that an interrupted writer left",
            ),
        },
    )
}

/// An unfinished table whose folder cannot be opened any more.
fn gone(register: &Register, target: &Target) -> Result<Option<TableRecord>, Failure> {
    Ok(unfinished_at(register, target)?
        .filter(|record| url(&record.path).is_none() && !record.path.exists()))
}

/// The owner says that a path is this table's. What lies there by now must be the table; what it
/// would else be by links is not asked.
fn record_path(
    site: &Site,
    config_dir: &ConfigDir,
    (vault, policy): (&Vault, &Policy),
    args: &Verify,
) -> Result<(), Failure> {
    let (Some(table), Some(path)) = (&args.table, &args.record_path) else {
        return Ok(());
    };
    let named = open_table(config_dir, vault, policy, &site::target(table))?;
    let id = named.manifest().table;
    let register = Register::of(config_dir, vault.keyring());
    named.check_at(path)?;
    if let Some(other) = register
        .by_path(&spelling::normal(path)?)?
        .filter(|other| other.id != id)
    {
        let path = path.to_path_buf();
        return Err(Error::PathTaken {
            path,
            table: other.name,
        }
        .into());
    }
    let event = Event::granted("record path").table(TableUse {
        name: named.name().to_owned(),
        id: id.to_string(),
        ..TableUse::default()
    });
    audit::note(
        site,
        vault.keyring(),
        event.detail("path", path.to_string_lossy()),
    )?;
    register.record_spelling(id, path)?;
    eprintln!(
        "{} means the table `{}` from now on.",
        path.display(),
        named.name()
    );
    Ok(())
}

fn unfinished(
    config_dir: &ConfigDir,
    register: &Register,
    record: &TableRecord,
    args: &Verify,
) -> Result<(), Failure> {
    let files = clean::unfinished_files(register, record)?;
    let removed = if args.clean {
        clean::clean_unfinished(config_dir, register, record)?
    } else {
        Vec::new()
    };
    if args.json {
        output::json(&json!({
            "table": record.id.to_string(), "name": record.name, "sound": false, "unfinished": true,
            "extra": files.iter().filter(|file| !removed.contains(file)).collect::<Vec<_>>(),
                "removed": removed,
        }));
    } else {
        for file in &files {
            println!(
                "{}  {}",
                if removed.contains(file) {
                    "removed"
                } else {
                    "extra"
                },
                file.display()
            );
        }
    }
    if args.clean {
        eprintln!("The unfinished table `{}` is cleared away.", record.name);
        return Ok(());
    }
    Err(Error::Unfinished(record.name.clone()).into())
}
