//! CSV sources. One pass finds where records begin, so that units are ranges of bytes that threads
//! parse on their own; a second infers types from all rows, unless they are given.

use std::{
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{AsArray, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
};
use arrow_csv::ReaderBuilder;
use coffer_format::{SparkType, parse_ddl};

use super::{UNIT_ROWS, csv_values, malformed};
use crate::{args::Encrypt, failure::Failure};

const BATCH_ROWS: usize = 16 * 1024;
const UNIT_BYTES: u64 = 256 << 20;
const LEAST_BYTES: u64 = 8 << 20;

pub(crate) struct CsvSource {
    dialect: Dialect,
    units: Vec<Unit>,
    pub(crate) columns: Vec<(String, SparkType, bool)>,
    pub(crate) rows: u64,
}

struct Dialect {
    delimiter: u8,
    quote: u8,
    null: String,
}

/// Whole records of one file.
#[derive(Clone)]
struct Unit {
    file: PathBuf,
    begin: u64,
    end: u64,
    first_record: u64,
    records: u64,
}

impl CsvSource {
    pub(crate) fn open(
        files: Vec<PathBuf>,
        args: &Encrypt,
        threads: usize,
    ) -> Result<Self, Failure> {
        let dialect = Dialect {
            delimiter: one_byte("--delimiter", &args.delimiter)?,
            quote: one_byte("--quote", &args.quote)?,
            null: args.null_value.clone(),
        };
        if !args.header && !args.no_header {
            return Err(Failure::usage("does the first record name the columns?")
                .hint("say --header or --no-header"));
        }
        let mut units = Vec::new();
        let mut names: Option<Vec<String>> = None;
        for file in files {
            let header = header(&file, &dialect, args.header)?;
            if let Some(these) = header {
                match &names {
                    Some(first) if *first != these => {
                        return Err(malformed(
                            &file,
                            "its columns differ from those of the first file",
                        ));
                    }
                    _ => names = Some(these),
                }
            }
            units.extend(scan(&file, dialect.quote, args.header, threads)?);
        }
        let names = names.ok_or_else(|| Failure::usage("the files are empty"))?;
        let columns = match &args.schema {
            Some(ddl) => declared(ddl, &names, args.header)?,
            None => infer(&dialect, &units, &names)?,
        };
        let rows = units.iter().map(|unit| unit.records).sum();
        Ok(Self {
            dialect,
            units,
            columns,
            rows,
        })
    }

    pub(crate) fn units(&self) -> usize {
        self.units.len()
    }

    pub(crate) fn read(
        &self,
        unit: usize,
        schema: &SchemaRef,
        take: &mut dyn FnMut(RecordBatch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(unit) = self.units.get(unit) else {
            return Ok(());
        };
        let mut record = unit.first_record;
        for batch in self.dialect.records(unit, self.columns.len())? {
            let batch = batch.map_err(|error| malformed(&unit.file, error))?;
            let columns = batch
                .columns()
                .iter()
                .zip(&self.columns)
                .zip(schema.fields())
                .map(|((column, (name, kind, _)), field)| {
                    let texts = column.as_string::<i32>();
                    let index = csv_values::CsvPosition {
                        file: &unit.file,
                        column: name,
                        first_record: record,
                    };
                    csv_values::parse(texts, kind, &self.dialect.null, field.is_nullable(), &index)
                });
            let columns = columns.collect::<Result<Vec<_>, Failure>>()?;
            record = record.saturating_add(u64::try_from(batch.num_rows()).unwrap_or(0));
            take(
                RecordBatch::try_new(Arc::clone(schema), columns)
                    .map_err(|error| malformed(&unit.file, error))?,
            )?;
        }
        Ok(())
    }
}

impl Dialect {
    /// The unit's records, every field as text.
    fn records(
        &self,
        unit: &Unit,
        columns: usize,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, ArrowError>> + use<>, Failure> {
        let fields: Vec<_> = (0..columns)
            .map(|at| Field::new(format!("_c{at}"), DataType::Utf8, true))
            .collect();
        let failed = |error| Failure::io("read", &unit.file, error);
        let mut file = File::open(&unit.file).map_err(failed)?;
        file.seek(SeekFrom::Start(unit.begin)).map_err(failed)?;
        let mut builder = ReaderBuilder::new(Arc::new(Schema::new(fields)))
            .with_header(false)
            .with_delimiter(self.delimiter)
            .with_quote(self.quote)
            .with_batch_size(BATCH_ROWS);
        if !self.null.is_empty() {
            let exact = format!("^{}$", regex::escape(&self.null));
            builder = builder.with_null_regex(
                regex::Regex::new(&exact).map_err(|error| malformed(&unit.file, error))?,
            );
        }
        let range =
            BufReader::with_capacity(1 << 20, file.take(unit.end.saturating_sub(unit.begin)));
        builder
            .build_buffered(range)
            .map_err(|error| malformed(&unit.file, error))
    }
}

fn one_byte(option: &str, text: &str) -> Result<u8, Failure> {
    match (text, text.as_bytes()) {
        ("\\t", _) => Ok(b'\t'),
        (_, [byte]) => Ok(*byte),
        _ => Err(Failure::usage(format!(
            "{option} takes one ASCII character, or \\t"
        ))),
    }
}

/// The names of the columns; none for an empty file.
fn header(file: &Path, dialect: &Dialect, named: bool) -> Result<Option<Vec<String>>, Failure> {
    let reader = File::open(file).map_err(|error| Failure::io("read", file, error))?;
    let format = arrow_csv::reader::Format::default()
        .with_header(true)
        .with_delimiter(dialect.delimiter)
        .with_quote(dialect.quote);
    let (schema, _) = format
        .infer_schema(reader, Some(0))
        .map_err(|error| malformed(file, error))?;
    if schema.fields().is_empty() {
        return Ok(None);
    }
    let names = schema.fields().iter().enumerate();
    let names = names.map(|(at, field)| {
        if named {
            field.name().clone()
        } else {
            format!("_c{at}")
        }
    });
    Ok(Some(names.collect()))
}

/// Cuts a file into units at ends of records: line ends outside quotes. (A doubled quote toggles
/// twice.)
fn scan(path: &Path, quote: u8, header: bool, threads: usize) -> Result<Vec<Unit>, Failure> {
    let failed = |error| Failure::io("read", path, error);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let share = length.div_ceil(u64::try_from(threads.max(1)).unwrap_or(1));
    let target = share.clamp(LEAST_BYTES, UNIT_BYTES);
    let (mut units, mut buffer) = (Vec::new(), vec![0_u8; 1 << 20]);
    let (mut position, mut begin, mut records, mut first_record) = (0_u64, 0_u64, 0_u64, 1_u64);
    let (mut quoted, mut blank, mut skip) = (false, true, header);
    let mut cut = |begin: u64, end: u64, first_record: u64, records: u64| {
        if records > 0 {
            units.push(Unit {
                file: path.to_owned(),
                begin,
                end,
                first_record,
                records,
            });
        }
    };
    loop {
        let read = file.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            break;
        }
        for byte in buffer.get(..read).unwrap_or_default() {
            position = position.saturating_add(1);
            if *byte == quote {
                quoted = !quoted;
            }
            if *byte != b'\n' || quoted {
                blank &= *byte == b'\r';
                continue;
            }
            // Readers pass over empty lines.
            if blank {
                continue;
            }
            blank = true;
            if std::mem::take(&mut skip) {
                begin = position;
                continue;
            }
            records = records.saturating_add(1);
            if position.saturating_sub(begin) >= target || records >= UNIT_ROWS {
                cut(begin, position, first_record, records);
                (begin, first_record, records) =
                    (position, first_record.saturating_add(records), 0);
            }
        }
    }
    if quoted {
        return Err(malformed(path, "a quote is not closed"));
    }
    if !blank && !skip {
        records = records.saturating_add(1);
    }
    cut(begin, position, first_record, records);
    Ok(units)
}

fn declared(
    ddl: &str,
    names: &[String],
    named: bool,
) -> Result<Vec<(String, SparkType, bool)>, Failure> {
    let columns = parse_ddl(ddl).map_err(|error| Failure::usage(format!("--schema: {error}")))?;
    if let Some((name, kind, _)) = columns.iter().find(|(_, kind, _)| kind.is_nested()) {
        return Err(Failure::usage(format!(
            "--schema: column `{name}` is {kind}, and CSV holds no arrays, structs and maps"
        )));
    }
    if let Some((name, kind, _)) = columns.iter().find(|(_, kind, _)| kind.has_interval()) {
        return Err(Failure::usage(format!(
            "--schema: column `{name}` is {kind}, and CSV holds no intervals"
        ))
        .hint("encrypt it as a number, and cast that where it is read"));
    }
    let differ = columns.len() != names.len()
        || (named
            && columns
                .iter()
                .zip(names)
                .any(|((column, _, _), name)| !column.eq_ignore_ascii_case(name)));
    if differ {
        return Err(
            Failure::usage("--schema and the files have different columns")
                .hint(format!("the files have {}", names.join(", "))),
        );
    }
    Ok(columns)
}

/// The narrowest type that takes every value of a column; a column without values is a string.
fn infer(
    dialect: &Dialect,
    units: &[Unit],
    names: &[String],
) -> Result<Vec<(String, SparkType, bool)>, Failure> {
    let mut guesses = vec![csv_values::Guess::default(); names.len()];
    for unit in units {
        for batch in dialect.records(unit, names.len())? {
            let batch = batch.map_err(|error| malformed(&unit.file, error))?;
            for (guess, column) in guesses.iter_mut().zip(batch.columns()) {
                let texts: &StringArray = column.as_string::<i32>();
                texts
                    .iter()
                    .flatten()
                    .filter(|text| !text.is_empty())
                    .for_each(|text| guess.see(text));
            }
        }
    }
    Ok(names
        .iter()
        .cloned()
        .zip(guesses)
        .map(|(name, guess)| (name, guess.kind(), true))
        .collect())
}
