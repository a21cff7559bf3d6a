//! `coffer keys list`

use coffer_catalog::{LinkRecord, Register, TableRecord};
use coffer_custody::{MasterInfo, Vault};
use serde_json::{Value, json};

use crate::{
    failure::{Exit, Failure},
    output,
    site::Site,
};

pub(super) fn list(site: &Site, as_json: bool) -> Result<(), Failure> {
    let (_, vault) = site.open_config_dir()?;
    let masters = vault.keyring().masters()?;
    let register = Register::of(&site.config_dir()?, vault.keyring());
    let (tables, links) = (register.tables()?, register.links()?);
    let receipts = vault.keyring().receipt_key().public();
    let receipts = receipts.map_err(|error| Failure::new(Exit::Keys, error.to_string()))?;
    if as_json {
        output::json(&json!({
            "receipt_key": hex::encode(receipts),
            "masters": masters.iter().map(master_json).collect::<Vec<_>>(),
            "elsewhere": vault
                .named()
                .iter()
                .map(|name| json!({ "name": name, "what": vault.master(name).describe() }))
                .collect::<Vec<_>>(),
            "tables": tables.iter().map(|table| table_json(&vault, table)).collect::<Result<Vec<_>,
                _>>()?,
            "links": links.iter().map(|link| link_json(&vault, link)).collect::<Result<Vec<_>,
                _>>()?,
        }));
        return Ok(());
    }
    println!("receipts are signed by {}\n", hex::encode(receipts));
    println!("{}", output::table(&master_rows(&masters)));
    if !vault.named().is_empty() {
        let mut rows = vec![["elsewhere", "what"].map(String::from).to_vec()];
        rows.extend(
            vault
                .named()
                .iter()
                .map(|name| vec![name.clone(), vault.master(name).describe()]),
        );
        println!("{}", output::table(&rows));
    }
    let heading = ["table", "version", "master", "its version", "id", "path"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    for table in tables {
        let version = table
            .committed
            .map_or("unfinished".to_owned(), |committed| {
                committed.version.to_string()
            });
        rows.push(vec![
            table.name.clone(),
            version,
            table.master.clone(),
            version_of_table(&vault, &table)?,
            table.id.to_string(),
            table.path.display().to_string(),
        ]);
    }
    print!("{}", output::table(&rows));
    if links.is_empty() {
        return Ok(());
    }
    println!();
    let mut rows = vec![
        ["link", "master", "its version", "id"]
            .map(String::from)
            .to_vec(),
    ];
    for link in links {
        let version = version_of_link(&vault, &link)?;
        rows.push(vec![link.name, link.master, version, link.id.to_string()]);
    }
    print!("{}", output::table(&rows));
    Ok(())
}

pub(super) fn master_rows(masters: &[MasterInfo]) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["master", "state", "version", "fingerprint"]
            .map(String::from)
            .to_vec(),
    ];
    for master in masters {
        let state = master.status.name().to_owned();
        if master.versions.is_empty() {
            rows.push(vec![master.name.clone(), state.clone()]);
        }
        for version in master.versions.iter().rev() {
            rows.push(vec![
                master.name.clone(),
                state.clone(),
                version.number.to_string(),
                version.fingerprint.clone(),
            ]);
        }
    }
    rows
}

pub(super) fn master_json(master: &MasterInfo) -> Value {
    let versions = master.versions.iter().map(|version| {
        json!({ "version": version.number, "fingerprint": version.fingerprint,
            "created": version.created })
    });
    json!({
        "name": master.name, "state": master.status.name(), "created": master.created,
        "version": master.newest().map(|newest| newest.number),
        "fingerprint": master.newest().map(|newest| newest.fingerprint.as_str()),
        "versions": versions.collect::<Vec<_>>(),
    })
}

fn table_json(vault: &Vault, table: &TableRecord) -> Result<Value, Failure> {
    Ok(json!({
        "name": table.name, "id": table.id.to_string(), "path": table.path, "master": table.master,
        "master_version": version_of_table(vault, table)?,
        "version": table.committed.map(|committed| committed.version),
        "unfinished": table.pending.is_some(),
    }))
}

fn link_json(vault: &Vault, link: &LinkRecord) -> Result<Value, Failure> {
    Ok(json!({
        "name": link.name, "id": link.id.to_string(), "master": link.master,
        "master_version": version_of_link(vault, link)?,
    }))
}

/// A master that the policy no longer names has no version that could be told.
fn version_of_table(vault: &Vault, table: &TableRecord) -> Result<String, Failure> {
    version(vault.version_of(
        &coffer_custody::KeyContext::Table(table.id),
        &table.wrapped(),
    ))
}

fn version_of_link(vault: &Vault, link: &LinkRecord) -> Result<String, Failure> {
    version(vault.version_of(&coffer_custody::KeyContext::Link(link.id), &link.wrapped()))
}

fn version(found: Result<String, coffer_custody::MasterError>) -> Result<String, Failure> {
    match found {
        Err(coffer_custody::MasterError::NotConfigured { .. }) => Ok("?".to_owned()),
        found => Ok(found?),
    }
}
