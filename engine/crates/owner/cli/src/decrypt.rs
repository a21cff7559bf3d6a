//! `coffer decrypt`: a verified table, or a single encrypted file, into plain files. The result
//! takes its name only when it is whole.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use coffer_catalog::{Error as TableError, FileReader, foreign::NamedKeks, open_foreign};
use coffer_format::{Column, char_varchar};
use coffer_protocol::storage::url;
use parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::{
    args::Decrypt,
    failure::{Exit, Failure},
    output,
    site::{self, Site},
};

type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, TableError>> + 'a>;

pub(crate) fn run(site: &Site, args: &Decrypt) -> Result<(), Failure> {
    if *args.dst != *Path::new("-") && args.dst.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!(
            "{} exists already",
            args.dst.display()
        )));
    }
    // A single file is opened without a config directory too, and then there is no zone.
    let homeless = args.kek_file.is_some() && !site.config_dir()?.policy().exists();
    if *args.dst != *Path::new("-") && !homeless {
        site.open_config_dir()?.0.check_plain([&*args.dst])?;
    }
    if let Some(kek_file) = &args.kek_file {
        if url(&args.src).is_some() {
            return Err(Failure::usage(
                "with --kek-file SRC is a file of this machine",
            ));
        }
        let reader = open_foreign(&args.src, read_keks(kek_file)?)?;
        let schema = Arc::clone(reader.schema());
        eprintln!(
            "Nothing says that this is the right file: without a manifest only its own parts fit \
                together."
        );
        return whole(&args.dst, &schema, &[], Box::new(reader));
    }
    let table = site.open_in_clear(&site::target(&args.src), "decrypt", &[], |_| Ok(()))?;
    let files = &table.manifest().files;
    let columns = &table.manifest().columns;
    let schema = Arc::new(table.manifest().schema());
    if is_file(&args.dst) {
        let batches = files.iter().flat_map(|pin| -> Batches<'_> {
            match FileReader::open(&table, pin) {
                Ok(reader) => {
                    Box::new(reader.map(|batch| Ok(char_varchar::read(&batch?, columns)?)))
                }
                Err(error) => Box::new(std::iter::once(Err(error))),
            }
        });
        return whole(&args.dst, &schema, columns, Box::new(batches));
    }
    let temporary = temporary(&args.dst);
    fs::create_dir_all(&temporary).map_err(|error| Failure::io("create", &temporary, error))?;
    let bar = output::progress(table.manifest().bytes(), "opening", true);
    let done = files.iter().enumerate().try_for_each(|(at, pin)| {
        let path = temporary.join(format!("part-{at:05}.parquet"));
        let batches =
            FileReader::open(&table, pin)?.map(|batch| Ok(char_varchar::read(&batch?, columns)?));
        write_parquet(&path, &schema, columns, Box::new(batches))?;
        bar.inc(pin.size);
        Ok(())
    });
    bar.finish_and_clear();
    finish(done, &temporary, &args.dst)
}

fn is_file(dst: &Path) -> bool {
    let extension = dst.extension().and_then(|extension| extension.to_str());
    dst == Path::new("-") || matches!(extension, Some("parquet" | "csv"))
}

/// Everything into one file.
fn whole(
    dst: &Path,
    schema: &SchemaRef,
    columns: &[Column],
    batches: Batches<'_>,
) -> Result<(), Failure> {
    if dst == Path::new("-") || dst.extension().is_some_and(|extension| extension == "csv") {
        check_csv(schema, columns)?;
    }
    if dst == Path::new("-") {
        return write_csv(std::io::stdout().lock(), dst, batches);
    }
    let temporary = temporary(dst);
    let done = if dst.extension().is_some_and(|extension| extension == "csv") {
        File::create_new(&temporary)
            .map_err(|error| Failure::io("create", &temporary, error))
            .and_then(|file| write_csv(BufWriter::new(file), &temporary, batches))
    } else {
        write_parquet(&temporary, schema, columns, batches)
    };
    finish(done, &temporary, dst)
}

/// Beside DST, so that it can be renamed.
fn temporary(dst: &Path) -> PathBuf {
    let mut name = dst.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".unfinished-{}", std::process::id()));
    dst.with_file_name(name)
}

fn finish(done: Result<(), Failure>, temporary: &Path, dst: &Path) -> Result<(), Failure> {
    if let Err(failure) = done {
        let _ = if temporary.is_dir() {
            fs::remove_dir_all(temporary)
        } else {
            fs::remove_file(temporary)
        };
        return Err(failure);
    }
    fs::rename(temporary, dst).map_err(|error| Failure::io("write", dst, error))
}

fn write_parquet(
    path: &Path,
    schema: &SchemaRef,
    columns: &[Column],
    batches: Batches<'_>,
) -> Result<(), Failure> {
    let failed = |error: parquet::errors::ParquetError| Failure::io("write", path, error);
    let file = File::create_new(path).map_err(|error| Failure::io("create", path, error))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_coerce_types(true)
        .set_key_value_metadata(char_varchar::row_metadata(columns).map(|note| vec![note]))
        .build();
    let mut writer =
        ArrowWriter::try_new(BufWriter::new(file), Arc::clone(schema), Some(properties))
            .map_err(failed)?;
    for batch in batches {
        writer.write(&batch?).map_err(failed)?;
    }
    writer
        .into_inner()
        .map_err(failed)?
        .into_inner()
        .map_err(|error| Failure::io("write", path, error.error()))?;
    Ok(())
}

fn check_csv(schema: &SchemaRef, columns: &[Column]) -> Result<(), Failure> {
    if let Some(column) = columns.iter().find(|column| column.kind.has_interval()) {
        return Err(Failure::usage(format!(
            "column `{}` is an interval, and CSV would hold a number without a unit",
            column.name
        ))
        .hint("write Parquet: name a file that ends in .parquet, or a folder"));
    }
    match schema
        .fields()
        .iter()
        .find(|field| field.data_type().is_nested())
    {
        Some(field) => Err(Failure::usage(format!(
            "column `{}` is an array, struct or map, and CSV holds none",
            field.name()
        ))
        .hint("write Parquet: name a file that ends in .parquet, or a folder")),
        None => Ok(()),
    }
}

fn write_csv(mut to: impl Write, path: &Path, batches: Batches<'_>) -> Result<(), Failure> {
    let mut writer = arrow_csv::WriterBuilder::new()
        .with_header(true)
        .build(&mut to);
    for batch in batches {
        writer
            .write(&batch?)
            .map_err(|error| Failure::io("write", path, error))?;
    }
    drop(writer);
    to.flush()
        .map_err(|error| Failure::io("write", path, error))
}

#[derive(Deserialize)]
struct KekFile {
    keks: std::collections::BTreeMap<String, String>,
}

fn read_keks(path: &Path) -> Result<NamedKeks, Failure> {
    let text =
        Zeroizing::new(fs::read_to_string(path).map_err(|error| Failure::io("read", path, error))?);
    let malformed = || {
        Failure::new(Exit::Keys, format!("{} does not hold KEKs", path.display())).hint(
            "it is JSON: {\"keks\": {\"<id>\": \"<base64>\"}}, as coffer keys export-keks \
                writes it",
        )
    };
    let file: KekFile = serde_json::from_str(&text).map_err(|_| malformed())?;
    let mut keks = NamedKeks::default();
    for (id, coded) in file.keks {
        let kek = Zeroizing::new(
            BASE64
                .decode(Zeroizing::new(coded).as_bytes())
                .map_err(|_| malformed())?,
        );
        keks.insert(id, kek)?;
    }
    Ok(keks)
}
