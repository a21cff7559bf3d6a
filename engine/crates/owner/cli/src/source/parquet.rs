//! Parquet sources: units are runs of whole row groups, or parts of very large ones.

use std::{fs::File, path::PathBuf, sync::Arc};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use coffer_catalog::convert;
use coffer_format::{Error as FormatError, SparkType, char_varchar, plain::arrow_schema};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};

use super::{LEAST_ROWS, UNIT_ROWS, malformed};
use crate::failure::Failure;

const BATCH_ROWS: usize = 16 * 1024;
/// Set by Spark 2 and by Spark's legacy mode: dates and times are in the Julian calendar
/// before 1582.
const LEGACY: [&str; 2] = [
    "org.apache.spark.legacyDateTime",
    "org.apache.spark.legacyINT96",
];

pub(crate) struct ParquetSource {
    files: Vec<(PathBuf, ArrowReaderMetadata)>,
    units: Vec<Vec<Piece>>,
    pub(crate) columns: Vec<(String, SparkType, bool)>,
    pub(crate) rows: u64,
}

/// Rows of one file: of these row groups, after `skip`, `take` of them.
struct Piece {
    file: usize,
    row_groups: Vec<usize>,
    skip: u64,
    take: u64,
}

impl ParquetSource {
    pub(crate) fn open(paths: Vec<PathBuf>, threads: usize) -> Result<Self, Failure> {
        let mut files: Vec<(PathBuf, ArrowReaderMetadata)> = Vec::new();
        let mut columns: Vec<(String, SparkType, bool)> = Vec::new();
        for path in paths {
            let metadata = load(&path)?;
            let mut these = convert::columns_of(metadata.schema())?;
            char_varchar::declare(
                &mut these,
                metadata.metadata().file_metadata().key_value_metadata(),
            )
            .map_err(FormatError::from)?;
            match files.first() {
                None => columns = these,
                Some((first, _)) => {
                    let differ =
                        |(a, b): (&(String, SparkType, bool), &(String, SparkType, bool))| {
                            (&a.0, &a.1) != (&b.0, &b.1)
                        };
                    if columns.len() != these.len() || columns.iter().zip(&these).any(differ) {
                        return Err(malformed(
                            &path,
                            format!(
                                "its columns or types differ from those of {}",
                                first.display()
                            ),
                        ));
                    }
                    for (column, other) in columns.iter_mut().zip(these) {
                        column.2 |= other.2;
                    }
                }
            }
            files.push((path, metadata));
        }
        let groups: Vec<(usize, usize, u64)> = files
            .iter()
            .enumerate()
            .flat_map(|(file, (_, metadata))| {
                let groups = metadata.metadata().row_groups().iter().enumerate();
                groups.map(move |(group, meta)| {
                    (file, group, u64::try_from(meta.num_rows()).unwrap_or(0))
                })
            })
            .collect();
        let rows = groups.iter().map(|(_, _, rows)| rows).sum();
        Ok(Self {
            files,
            units: plan(&groups, rows, threads),
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
        for piece in self.units.get(unit).map(Vec::as_slice).unwrap_or_default() {
            let Some((path, metadata)) = self.files.get(piece.file) else {
                continue;
            };
            let file = File::open(path).map_err(|error| Failure::io("read", path, error))?;
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
                .with_row_groups(piece.row_groups.clone())
                .with_batch_size(BATCH_ROWS)
                .with_offset(usize::try_from(piece.skip).unwrap_or(usize::MAX))
                .with_limit(usize::try_from(piece.take).unwrap_or(usize::MAX))
                .build()
                .map_err(|error| malformed(path, error))?;
            let mut left = piece.take;
            for batch in reader {
                let batch = batch.map_err(|error| malformed(path, error))?;
                left = left.saturating_sub(u64::try_from(batch.num_rows()).unwrap_or(0));
                take(convert::to_schema(&batch, schema)?)?;
            }
            if left > 0 {
                return Err(malformed(path, format!("{left} rows are missing")));
            }
        }
        Ok(())
    }
}

fn load(path: &PathBuf) -> Result<ArrowReaderMetadata, Failure> {
    let file = File::open(path).map_err(|error| Failure::io("read", path, error))?;
    // The types as Parquet has them, as Spark would see them; not what Arrow noted on the side.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&file, options.clone())
        .map_err(|error| malformed(path, error))?;
    let notes = metadata.metadata().file_metadata().key_value_metadata();
    if notes.is_some_and(|notes| notes.iter().any(|note| LEGACY.contains(&note.key.as_str()))) {
        return Err(
            malformed(path, "its dates or times are in Spark's legacy calendar")
                .hint("rewrite the file with Spark 3 or later, rebase mode CORRECTED"),
        );
    }
    // An INT96 is an instant to Spark; in microseconds it has Spark's range.
    let hinted = arrow_schema(metadata.metadata()).map_err(|error| malformed(path, error))?;
    ArrowReaderMetadata::load(&file, options.with_schema(Arc::new(hinted)))
        .map_err(|error| malformed(path, error))
}

/// Units of about [`UNIT_ROWS`] rows, fewer when there are few rows for many threads.
fn plan(groups: &[(usize, usize, u64)], rows: u64, threads: usize) -> Vec<Vec<Piece>> {
    let share = rows.div_ceil(u64::try_from(threads.max(1)).unwrap_or(1));
    let target = share.clamp(LEAST_ROWS, UNIT_ROWS);
    let mut units = Vec::new();
    let mut unit: Vec<Piece> = Vec::new();
    let mut filled = 0_u64;
    for &(file, group, rows) in groups.iter().filter(|(_, _, rows)| *rows > 0) {
        // Close the unit where that leaves it nearer to its target.
        if filled > 0 && filled.saturating_add(rows / 2) > target {
            units.push(std::mem::take(&mut unit));
            filled = 0;
        }
        let parts = rows.div_ceil(target.saturating_add(target / 2)).max(1);
        for part in 0..parts {
            let bound = |part: u64| rows.saturating_mul(part).checked_div(parts).unwrap_or(0);
            let (skip, end) = (bound(part), bound(part.saturating_add(1)));
            let piece = Piece {
                file,
                row_groups: vec![group],
                skip,
                take: end.saturating_sub(skip),
            };
            match unit.last_mut() {
                Some(last) if parts == 1 && last.file == file => {
                    last.row_groups.push(group);
                    last.take = last.take.saturating_add(rows);
                }
                _ => unit.push(piece),
            }
            if parts > 1 {
                units.push(std::mem::take(&mut unit));
            }
        }
        filled = if parts > 1 {
            0
        } else {
            filled.saturating_add(rows)
        };
    }
    if !unit.is_empty() {
        units.push(unit);
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(groups: &[u64], threads: usize) -> Vec<u64> {
        let groups: Vec<_> = groups
            .iter()
            .enumerate()
            .map(|(at, rows)| (0, at, *rows))
            .collect();
        let rows = groups.iter().map(|(_, _, rows)| rows).sum();
        plan(&groups, rows, threads)
            .iter()
            .map(|unit| unit.iter().map(|piece| piece.take).sum())
            .collect()
    }

    #[test]
    fn units_cover_all_rows_and_are_even() {
        assert_eq!(planned(&[120_000; 50], 2).iter().sum::<u64>(), 6_000_000);
        assert!(
            planned(&[120_000; 50], 2)
                .iter()
                .all(|rows| (500_000..1_200_000).contains(rows))
        );
        assert_eq!(planned(&[6_000_000], 2), vec![1_500_000; 4]);
        assert_eq!(planned(&[10, 20, 30], 8), vec![60]);
        assert_eq!(planned(&[0, 0], 8), Vec::<u64>::new());
    }
}
