//! `coffer keys`

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use coffer_keys::Passphrase;
use coffer_table::Register;
use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    args::{Keys, KeysCommand},
    failure::Failure,
    output,
    site::{self, Site},
};

const NEW_PASSPHRASE: &str = "COFFER_NEW_PASSPHRASE";

pub(crate) fn run(site: &Site, args: Keys) -> Result<(), Failure> {
    match args.command {
        KeysCommand::List { json } => list(site, json),
        KeysCommand::ExportKeks { table, columns, output } => export(site, &table, &columns, output.as_deref()),
        KeysCommand::Passwd { new_passphrase_file } => passwd(site, new_passphrase_file.as_deref()),
        KeysCommand::AddMaster { name } => add_master(site, &name),
        KeysCommand::Forget { table, yes } => forget(site, &table, yes),
    }
}

fn list(site: &Site, as_json: bool) -> Result<(), Failure> {
    let keyring = site.keyring()?;
    let masters = keyring.masters()?;
    let register = Register::of(&site.home()?, &keyring);
    let (tables, links) = (register.tables()?, register.links()?);
    if as_json {
        let masters = masters
            .iter()
            .map(|master| json!({ "name": master.name, "fingerprint": master.fingerprint, "created": master.created }));
        let tables = tables.iter().map(|table| {
            json!({
                "name": table.name, "id": table.id.to_string(), "path": table.path, "master": table.master,
                "version": table.committed.map(|committed| committed.version),
                "unfinished": table.pending.is_some(),
            })
        });
        output::json(&json!({
            "masters": masters.collect::<Vec<_>>(),
            "tables": tables.collect::<Vec<_>>(),
            "links": links
                .iter()
                .map(|link| json!({ "name": link.name, "id": link.id.to_string(), "master": link.master }))
                .collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    let mut rows = vec![["master", "fingerprint"].map(String::from).to_vec()];
    rows.extend(masters.into_iter().map(|master| vec![master.name, master.fingerprint]));
    println!("{}", output::table(&rows));
    let mut rows = vec![["table", "version", "master", "id", "path"].map(String::from).to_vec()];
    for table in tables {
        let version = table
            .committed
            .map_or("unfinished".to_owned(), |committed| committed.version.to_string());
        rows.push(vec![
            table.name,
            version,
            table.master,
            table.id.to_string(),
            table.path.display().to_string(),
        ]);
    }
    print!("{}", output::table(&rows));
    if links.is_empty() {
        return Ok(());
    }
    println!();
    let mut rows = vec![["link", "master", "id"].map(String::from).to_vec()];
    rows.extend(
        links
            .into_iter()
            .map(|link| vec![link.name, link.master, link.id.to_string()]),
    );
    print!("{}", output::table(&rows));
    Ok(())
}

fn export(site: &Site, table: &str, columns: &[String], to: Option<&Path>) -> Result<(), Failure> {
    let table = site.open(&site::target(Path::new(table)))?;
    let keks = if columns.is_empty() {
        table.all_keks()?
    } else {
        table.keks(columns.iter().map(String::as_str))?
    };
    let mut by_id = serde_json::Map::new();
    for kek in keks.iter() {
        by_id.insert(kek.id().to_string(), json!(BASE64.encode(kek.expose())));
    }
    let text = json!({ "format": "coffer-keks-1", "table": table.manifest().table.to_string(), "keks": by_id });
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
    Ok(())
}

fn passwd(site: &Site, file: Option<&Path>) -> Result<(), Failure> {
    let mut keyring = site.keyring()?;
    let new = match (file, std::env::var(NEW_PASSPHRASE)) {
        (Some(file), _) => Passphrase::from_file(file)?,
        (None, Ok(text)) => Passphrase::new(text)?,
        (None, Err(_)) => site::prompt_new()?,
    };
    keyring.change_passphrase(&new)?;
    eprintln!("Copies of the old keyring file still open with the old passphrase.");
    Ok(())
}

fn add_master(site: &Site, name: &str) -> Result<(), Failure> {
    let info = site.keyring()?.add_master(name)?;
    println!("{} {}", info.name, info.fingerprint);
    Ok(())
}

fn forget(site: &Site, name: &str, yes: bool) -> Result<(), Failure> {
    let keyring = site.keyring()?;
    let register = Register::of(&site.home()?, &keyring);
    let record = register
        .by_name(name)?
        .ok_or_else(|| coffer_table::Error::UnknownTable(name.to_owned()))?;
    if record.path.exists() && !yes {
        return Err(
            Failure::usage(format!("the table's files are still at {}", record.path.display()))
                .hint("once forgotten they can never be read again; --yes does it"),
        );
    }
    register.remove(record.id)?;
    eprintln!("`{name}` is forgotten; its entry in the policy is yours to remove.");
    Ok(())
}
