//! `coffer keys`

pub(crate) mod args;
mod data;
mod export;
mod life;
mod list;
mod rewrap;
mod verify;
mod zones;

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use args::{Keys, KeysCommand};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use coffer_audit::{Event, TableUse};
use coffer_catalog::{Register, VerifiedManifest};
use coffer_custody::Passphrase;
use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    audit, exec,
    failure::Failure,
    site::{self, Site},
};

const NEW_PASSPHRASE: &str = "COFFER_NEW_PASSPHRASE";

pub(crate) fn run(site: &Site, args: Keys) -> Result<(), Failure> {
    match args.command {
        KeysCommand::List { json } => list::list(site, json),
        KeysCommand::Create(args) => life::create(site, &args),
        KeysCommand::Rotate(args) => life::rotate(site, &args),
        KeysCommand::Rewrap(args) => rewrap::run(site, &args),
        KeysCommand::Disable(args) => life::set_enabled(site, &args, false),
        KeysCommand::Enable(args) => life::set_enabled(site, &args, true),
        KeysCommand::Destroy(args) => life::destroy(site, &args),
        KeysCommand::Export(args) => export::export(site, &args),
        KeysCommand::Import(args) => export::import(site, &args),
        KeysCommand::Recover { shares } => export::recover(site, &shares),
        KeysCommand::Zones { unlock, json } => zones::run(site, unlock, json),
        KeysCommand::Verify(args) => verify::run(site, &args),
        KeysCommand::ExportKeks {
            table,
            columns,
            output,
        } => export_keks(site, &table, &columns, output.as_deref()),
        KeysCommand::Passwd {
            new_passphrase_file,
        } => passwd(site, new_passphrase_file.as_deref()),
        KeysCommand::Serve(serve) => exec::serve(site, &serve),
        KeysCommand::Forget { table, yes } => forget(site, &table, yes),
    }
}

fn export_keks(
    site: &Site,
    table: &str,
    columns: &[String],
    to: Option<&Path>,
) -> Result<(), Failure> {
    let table = site.open_in_clear(
        &site::target(Path::new(table)),
        "export keks",
        columns,
        check_own,
    )?;
    let keks = if columns.is_empty() {
        table.all_keks()?
    } else {
        table.keks(columns.iter().map(String::as_str))?
    };
    let mut by_id = serde_json::Map::new();
    for kek in keks.iter() {
        by_id.insert(kek.id().to_string(), json!(BASE64.encode(kek.expose())));
    }
    let text = json!({ "format": "coffer-keks-1", "table": table.manifest().table.to_string(),
        "keks": by_id });
    let text = Zeroizing::new(format!("{text:#}\n"));
    match to {
        None => print!("{}", text.as_str()),
        Some(path) => OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| Failure::io("write", path, error))?,
    }
    let what = if columns.is_empty() {
        "all columns".to_owned()
    } else {
        columns.join(", ")
    };
    eprintln!(
        "warning: these keys open {what} of `{}`, now and in every copy of its files.",
        table.name()
    );
    eprintln!("hint: they cannot be taken back; keep them like the data itself.");
    let files = &table.manifest().files;
    let adopted = files.iter().filter(|file| file.adopted.is_some()).count();
    if adopted > 0 {
        let all = files.len();
        eprintln!(
            "warning: {adopted} of its {all} files do not open by them: other programs wrote \
                those, under keys of their own."
        );
        eprintln!(
            "hint: coffer keys rewrap --data {} encrypts them anew.",
            table.name()
        );
    }
    Ok(())
}

/// Files that were adopted name no KEK of the table.
fn check_own(table: &VerifiedManifest) -> Result<(), Failure> {
    let files = &table.manifest().files;
    if files.is_empty() || files.iter().any(|file| file.adopted.is_none()) {
        return Ok(());
    }
    let name = table.name();
    let failure = Failure::usage(format!(
        "no file of `{name}` would open by its KEKs: other programs wrote them all, under keys of \
            their own"
    ));
    Err(failure.hint(format!(
        "coffer keys rewrap --data {name} encrypts them anew"
    )))
}

fn passwd(site: &Site, file: Option<&Path>) -> Result<(), Failure> {
    let mut keyring = site.keyring()?;
    let new = match (file, std::env::var(NEW_PASSPHRASE)) {
        (Some(file), _) => Passphrase::from_file(file)?,
        (None, Ok(text)) => Passphrase::new(text)?,
        (None, Err(_)) => site::prompt_new()?,
    };
    audit::note(site, &keyring, Event::granted("keys passwd"))?;
    keyring.change_passphrase(&new)?;
    eprintln!("Copies of the old keyring file still open with the old passphrase.");
    Ok(())
}

fn forget(site: &Site, name: &str, yes: bool) -> Result<(), Failure> {
    let keyring = site.keyring()?;
    let register = Register::of(&site.config_dir()?, &keyring);
    let record = register
        .by_name(name)?
        .ok_or_else(|| coffer_catalog::Error::UnknownTable(name.to_owned()))?;
    if record.path.exists() && !yes {
        return Err(Failure::usage(format!(
            "the table's files are still at {}",
            record.path.display()
        ))
        .hint("once forgotten they can never be read again; --yes does it"));
    }
    let event = Event::granted("keys forget").table(TableUse {
        name: record.name.clone(),
        id: record.id.to_string(),
        master: record.master.clone(),
        ..TableUse::default()
    });
    audit::note(site, &keyring, event)?;
    register.remove(record.id)?;
    eprintln!("`{name}` is forgotten; its entry in the policy is yours to remove.");
    Ok(())
}
