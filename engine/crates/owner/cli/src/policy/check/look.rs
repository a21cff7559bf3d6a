//! What a sealed table itself says of its columns: types, protections, and of some of its rows,
//! opened here, how many values a column has and whether the rows lie in its order.

use std::collections::HashSet;

use arrow::{
    array::{Array, ArrayRef},
    row::{OwnedRow, RowConverter, SortField},
};
use coffer_catalog::{Error, FileReader, Target, VerifiedManifest, open_table};
use coffer_custody::{ConfigDir, Policy, Vault};
use coffer_format::Error as FormatError;
use coffer_format::{FilePin, SparkType, StoredColumn};
use coffer_schemes::Protection;

use crate::failure::Failure;

/// At most so many files are read, spread over the table, …
const FILES: usize = 8;
/// … and of each of them so many batches (of 16,384 rows), from its beginning.
const BATCHES: usize = 2;
/// Values of a column are counted up to here: more are many.
const MOST_VALUES: usize = 20_000;
/// Rows are in a column's order when so many of a hundred steps from one value to another go the
/// same way.
const SAME_WAY: u64 = 95;

/// A sealed table, looked at.
pub(super) struct Look {
    pub(super) version: u64,
    /// Of the whole table.
    pub(super) rows: u64,
    /// Of which so many were read.
    pub(super) rows_read: u64,
    /// Whether any column is stored so that someone without keys can work on it.
    pub(super) is_host_readable: bool,
    pub(super) columns: Vec<SeenColumn>,
}

/// One column of it.
#[derive(Clone)]
pub(super) struct SeenColumn {
    pub(super) name: String,
    pub(super) kind: SparkType,
    pub(super) nullable: bool,
    /// Whether its values are in the files' paths if they are plain, and one for each file.
    pub(super) is_partition: bool,
    pub(super) protections: Vec<Protection>,
    /// As the manifest has it; empty in tables that are `tee` throughout.
    pub(super) stored: Vec<StoredColumn>,
    pub(super) values: Values,
}

/// What the rows that were read say of a column.
#[derive(Clone, Default)]
pub(super) struct Values {
    /// Different ones, without NULL; none when they were too many to be counted.
    pub(super) distinct: Option<u64>,
    /// That are not NULL.
    pub(super) count: u64,
    /// Whether the rows lie in their order, up or down.
    pub(super) in_order: bool,
}

/// Looks at a table; a reason where there is nothing to look at. Data that is not what it should be
/// is an error.
pub(super) fn look(
    config_dir: &ConfigDir,
    vault: &Vault,
    policy: &Policy,
    name: &str,
) -> Result<Result<Look, &'static str>, Failure> {
    let table = match open_table(config_dir, vault, policy, &Target::Name(name.to_owned())) {
        Ok(table) => table,
        Err(Error::UnknownTable(_)) => {
            return Ok(Err("it is not in this config directory's register"));
        }
        Err(Error::Unfinished(_)) => return Ok(Err("its first version was never finished")),
        Err(Error::Format(FormatError::Io { .. }) | Error::NotATable(_)) => {
            return Ok(Err("its folder cannot be read from here"));
        }
        Err(error) => return Err(error.into()),
    };
    let manifest = table.manifest();
    let (values, rows_read) = read(&table)?;
    let columns = manifest.columns.iter().zip(values).map(|(column, values)| {
        let stored: Vec<StoredColumn> = (manifest.stored.iter())
            .filter(|stored| stored.column == column.id)
            .cloned()
            .collect();
        SeenColumn {
            name: column.name.clone(),
            kind: column.kind.clone(),
            nullable: column.nullable,
            is_partition: manifest.partition_columns.contains(&column.id),
            protections: column.protection.as_slice().to_vec(),
            stored,
            values,
        }
    });
    Ok(Ok(Look {
        version: manifest.version,
        rows: manifest.rows(),
        rows_read,
        is_host_readable: !manifest.stored.is_empty(),
        columns: columns.collect(),
    }))
}

/// Of each column what some of the rows say, and how many rows that were.
fn read(table: &VerifiedManifest) -> Result<(Vec<Values>, u64), Failure> {
    let manifest = table.manifest();
    let mut counters = (manifest.columns.iter())
        .map(|column| Counter::new(&column.kind))
        .collect::<Result<Vec<_>, Failure>>()?;
    let mut rows = 0_u64;
    for pin in spread(&manifest.files) {
        for batch in FileReader::open(table, pin)?.take(BATCHES) {
            let batch = batch?;
            rows = rows.saturating_add(u64::try_from(batch.num_rows()).unwrap_or(u64::MAX));
            for (counter, array) in counters.iter_mut().zip(batch.columns()) {
                counter.add(array)?;
            }
        }
    }
    Ok((counters.iter().map(Counter::values).collect(), rows))
}

/// Some of the files, from all over the table.
fn spread(files: &[FilePin]) -> impl Iterator<Item = &FilePin> {
    let step = files.len().div_ceil(FILES).max(1);
    files.iter().step_by(step)
}

/// Counts one column's values. They are compared as rows of one column, which have the values'
/// order.
struct Counter {
    /// None of a nested column, which is always `tee`.
    converter: Option<RowConverter>,
    distinct: HashSet<OwnedRow>,
    count: u64,
    up: u64,
    down: u64,
}

impl Counter {
    fn new(kind: &SparkType) -> Result<Self, Failure> {
        let converter = || RowConverter::new(vec![SortField::new(kind.to_arrow())]);
        Ok(Self {
            converter: (!kind.is_nested())
                .then(converter)
                .transpose()
                .map_err(of_arrow)?,
            distinct: HashSet::new(),
            count: 0,
            up: 0,
            down: 0,
        })
    }

    fn add(&mut self, array: &ArrayRef) -> Result<(), Failure> {
        let Some(converter) = &mut self.converter else {
            let values = array.len().saturating_sub(array.null_count());
            self.count = self
                .count
                .saturating_add(u64::try_from(values).unwrap_or(u64::MAX));
            return Ok(());
        };
        let rows = converter
            .convert_columns(std::slice::from_ref(array))
            .map_err(of_arrow)?;
        let mut last = None;
        for (at, row) in rows.iter().enumerate() {
            if array.is_null(at) {
                continue;
            }
            self.count += 1;
            match last.replace(row).map(|last| row.cmp(&last)) {
                Some(std::cmp::Ordering::Greater) => self.up += 1,
                Some(std::cmp::Ordering::Less) => self.down += 1,
                Some(std::cmp::Ordering::Equal) => continue,
                None => {}
            }
            if self.distinct.len() <= MOST_VALUES {
                self.distinct.insert(row.owned());
            }
        }
        Ok(())
    }

    fn values(&self) -> Values {
        let steps = self.up.saturating_add(self.down);
        let same_way = self.up.max(self.down);
        // Few rows are in some order by chance; of many rows that are not, most are followed by
        // another value.
        let enough =
            steps >= 20 || (same_way == steps && (steps >= 4 || (steps >= 1 && self.count >= 100)));
        Values {
            distinct: (self.converter.is_some() && self.distinct.len() <= MOST_VALUES)
                .then(|| u64::try_from(self.distinct.len()).unwrap_or(u64::MAX)),
            count: self.count,
            in_order: enough && same_way.saturating_mul(100) >= steps.saturating_mul(SAME_WAY),
        }
    }
}

fn of_arrow(error: arrow::error::ArrowError) -> Failure {
    Failure::from(Error::from(error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;

    use super::*;

    fn values(numbers: impl IntoIterator<Item = Option<i32>>) -> Values {
        let mut counter = Counter::new(&SparkType::Int).unwrap();
        let array: ArrayRef = Arc::new(Int32Array::from_iter(numbers));
        counter.add(&array).unwrap();
        counter.values()
    }

    #[test]
    fn values_and_their_order() {
        let mixed = values((0..1000).map(|n| (n % 10 != 0).then_some(n * 7919 % 50)));
        assert_eq!(
            (mixed.distinct, mixed.count, mixed.in_order),
            (Some(45), 900, false)
        );
        assert!(values((0..1000).map(Some)).in_order);
        assert!(values((0..1000).map(|n| Some(-n / 10))).in_order);
        // A late one now and then.
        assert!(values((0..1000).map(|n| Some(if n % 50 == 0 { n - 5 } else { n }))).in_order);
        // Sorted, with three values.
        assert!(values((0..1000).map(|n| Some(n / 400))).in_order);
        assert!(!values([Some(1), Some(2), Some(3)]).in_order);
        assert!(!values((0..1000).map(|_| Some(7))).in_order);
        assert_eq!(values((0..30_000).map(Some)).distinct, None);
    }
}
