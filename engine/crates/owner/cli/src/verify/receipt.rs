//! `coffer verify --receipt`: holds a receipt against its signature, and, where the config
//! directory is at hand, against audit log and tables.

use std::{collections::BTreeSet, fs, io::Cursor, path::Path};

use arrow::{
    array::RecordBatch,
    error::ArrowError,
    ipc::reader::{FileReader, StreamReader},
};
use coffer_audit::{AuditLog, Event, Outcome, Record};
use coffer_catalog::{Register, Target, open_table};
use coffer_sealing::sha256;
use coffer_statement::{Envelope, Input, RECEIPT_TYPE, Receipt, ResultDigest};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::json;

use super::ticks::Ticks;
use crate::{
    args::Verify,
    audit::escaped,
    failure::{Exit, Failure},
    output,
    site::Site,
};

pub(super) fn run(site: &Site, file: &Path, args: &Verify) -> Result<(), Failure> {
    let bytes = fs::read(file).map_err(|error| Failure::io("read", file, error))?;
    let refused = |error: String| {
        Failure::new(Exit::Check, format!("{}: {error}", file.display()))
            .hint("give the file as the driver wrote it; --signer names another owner's key")
    };
    let envelope = Envelope::parse(&bytes).map_err(|error| refused(error.to_string()))?;
    let mut ticks = Ticks::default();
    let receipt = match args.signer {
        Some(signer) => {
            let receipt = opened(&envelope, &signer.0).map_err(refused)?;
            signed(&mut ticks, &signer.0);
            receipt
        }
        None => {
            let (policy, vault) = site.open_config_dir()?;
            let keyring = vault.keyring();
            let signer = keyring
                .receipt_key()
                .public()
                .map_err(|error| Failure::new(Exit::Keys, error.to_string()))?;
            let receipt = opened(&envelope, &signer).map_err(refused)?;
            signed(&mut ticks, &signer);
            let payload = envelope
                .open(RECEIPT_TYPE, &signer)
                .map_err(|error| refused(error.to_string()))?;
            let log = AuditLog::of(&site.config_dir()?, keyring);
            in_log(&mut ticks, &log, &receipt, &hex::encode(sha256(&payload)))?;
            let register = Register::of(&site.config_dir()?, keyring);
            for input in sealed(&receipt) {
                let known = register
                    .tables()?
                    .into_iter()
                    .find(|table| table.id.to_string() == input.id);
                let (passed, found) = match known {
                    None => (None, "is not in the register any more".to_owned()),
                    Some(record) => {
                        let target = Target::Name(record.name);
                        let table = open_table(&site.config_dir()?, &vault, &policy, &target);
                        match table.and_then(|table| table.hash_of(input.version)) {
                            Ok(Some(hash)) if format!("{hash:?}") == input.manifest => {
                                (Some(true), "has the manifest that was read".to_owned())
                            }
                            Ok(Some(_)) => (Some(false), "has another manifest".to_owned()),
                            Ok(None) => (None, "is no longer kept".to_owned()),
                            Err(error) => (Some(false), error.to_string()),
                        }
                    }
                };
                let found = format!("`{}`, version {}, {found}", input.name, input.version);
                ticks.note("table", passed, found);
            }
            receipt
        }
    };
    for path in &args.result {
        let digest = digest_of(path)?;
        let part = receipt
            .results
            .iter()
            .find(|part| part.digest == digest.to_hex());
        let rows = digest.rows();
        let found = match part {
            Some(part) if part.whole => format!("{rows} rows, as they were given out"),
            Some(_) => format!("{rows} rows, as they were given out: a part of the result"),
            None => format!("{rows} rows, which are no result of this query"),
        };
        let found = format!("{}: {found}", path.display());
        ticks.note("result", part.is_some(), found);
    }
    report(&receipt, &ticks, args.json);
    ticks.verdict("the receipt")
}

fn opened(envelope: &Envelope, signer: &[u8; 32]) -> Result<Receipt, String> {
    Receipt::open(envelope, signer).map_err(|error| error.to_string())
}

fn signed(ticks: &mut Ticks, signer: &[u8; 32]) {
    ticks.note("signature", true, format!("by {}", hex::encode(signer)));
}

/// Tables of an owner, without what nobody verified.
fn sealed(receipt: &Receipt) -> impl Iterator<Item = &Input> {
    receipt.inputs.iter().filter(|input| input.version > 0)
}

/// What the audit log has of the receipt's session.
fn in_log(
    ticks: &mut Ticks,
    log: &AuditLog,
    receipt: &Receipt,
    sha256: &str,
) -> Result<(), Failure> {
    let mut records: Vec<Record> = Vec::new();
    let (mut policies, mut written) = (BTreeSet::new(), BTreeSet::new());
    for record in log.records()? {
        // A broken log proves nothing: its error says at which record.
        let record = record?;
        policies.extend(record.event.policy.clone());
        if record.event.outcome != Outcome::Granted {
            continue;
        }
        for table in record.event.tables.iter().filter(|table| table.write) {
            written.insert((table.id.clone(), table.version));
        }
        let query = record.event.query.as_ref();
        if query.is_some_and(|query| query.session == receipt.query.session) {
            records.push(record);
        }
    }
    let issued = records.iter().find(|record| {
        let event: &Event = &record.event;
        event.action == "receipt" && event.details.get("sha256").is_some_and(|s| s == sha256)
    });
    let found = match issued {
        Some(record) => format!("record {} of the log has it", record.sequence),
        None => "no record of the log has it".to_owned(),
    };
    ticks.note("audit log", issued.is_some(), found);
    let user = &receipt.query.user;
    let same = !records.is_empty() && records.iter().all(|record| record.who.user == *user);
    ticks.note("user", same, user.clone());
    for engine in &receipt.engines {
        let logged = records
            .iter()
            .any(|record| record.event.engines.contains(engine));
        let measurement = match engine.measurement.as_str() {
            "" => String::new(),
            measurement => format!(", measurement {measurement}"),
        };
        let found = format!("{}, by {} evidence{measurement}", engine.id, engine.kind);
        ticks.note("engine", logged, found);
    }
    for input in sealed(receipt) {
        let uses = records.iter().flat_map(|record| &record.event.tables);
        let columns: BTreeSet<&String> = uses
            .filter(|used| {
                (&used.id, used.version, &used.manifest)
                    == (&input.id, input.version, &input.manifest)
            })
            .flat_map(|used| &used.columns)
            .collect();
        let logged = input.columns.iter().all(|column| columns.contains(column));
        let names = input.columns.join(", ");
        let found = format!("`{}`, version {}: {names}", input.name, input.version);
        ticks.note("input", logged, found);
    }
    for table in &receipt.written {
        let published = written.contains(&(table.id.clone(), table.version));
        let found = format!("`{}`, version {}", table.name, table.version);
        ticks.note("written", published, found);
    }
    for policy in &receipt.policies {
        ticks.note("policy", policies.contains(policy), policy.clone());
    }
    Ok(())
}

/// Of a Parquet file, or of an Arrow IPC file or stream.
fn digest_of(path: &Path) -> Result<ResultDigest, Failure> {
    let bytes = fs::read(path).map_err(|error| Failure::io("read", path, error))?;
    let unreadable = |error: String| {
        Failure::new(Exit::Check, format!("{}: {error}", path.display()))
            .hint("give the rows as one Parquet or Arrow IPC file")
    };
    let mut digest = ResultDigest::default();
    let mut add = |batches: &mut dyn Iterator<Item = Result<RecordBatch, ArrowError>>| {
        for batch in batches {
            let batch = batch.map_err(|error| unreadable(error.to_string()))?;
            digest
                .add(&batch)
                .map_err(|error| unreadable(error.to_string()))?;
        }
        Ok::<(), Failure>(())
    };
    if bytes.starts_with(b"PAR1") {
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))
            .and_then(|builder| builder.build())
            .map_err(|error| unreadable(error.to_string()))?;
        add(&mut { reader })?;
    } else if bytes.starts_with(b"ARROW1") {
        let reader = FileReader::try_new(Cursor::new(bytes), None)
            .map_err(|error| unreadable(error.to_string()))?;
        add(&mut { reader })?;
    } else {
        let reader = StreamReader::try_new(Cursor::new(bytes), None)
            .map_err(|error| unreadable(error.to_string()))?;
        add(&mut { reader })?;
    }
    Ok(digest)
}

fn report(receipt: &Receipt, ticks: &Ticks, as_json: bool) {
    if as_json {
        output::json(&json!({
            "holds": ticks.holds(),
            "checks": ticks.json(),
            "receipt": receipt,
        }));
        return;
    }
    ticks.print();
    let (began, made) = (&receipt.began, &receipt.made);
    println!("  {:<10} {began} to {made}", "when");
    let (stages, hash) = (receipt.plan.stages, &receipt.plan.sha256);
    println!("  {:<10} {stages} stages, SHA-256 {hash}", "plan");
    for input in receipt.inputs.iter().filter(|input| input.version == 0) {
        println!("  {:<10} {}", "unverified", input.id);
    }
    if receipt.at_client.fragments > 0 {
        let fragments = receipt.at_client.fragments;
        println!(
            "  {:<10} {fragments} fragments, in the client engine",
            "client"
        );
    }
    if !receipt.at_client.driver.is_empty() {
        let operators = escaped(&receipt.at_client.driver.join(", "));
        println!("  {:<10} {operators}, by the driver's word", "driver");
    }
    for part in &receipt.results {
        let whole = if part.whole { "" } else { ", a part" };
        println!(
            "  {:<10} {} rows{whole}, digest {}",
            "given out", part.rows, part.digest
        );
    }
}
