//! Files that a scan need not open: those whose partition values, which the manifest has, let no
//! row pass the conditions pushed into the scan.
//!
//! The plugin asks for all files, and is checked to; what is left out of the tasks is decided here
//! alone. An engine that opened such a file would prune it too, by its footer, so the host learns
//! no more than by that: which files are read.

use std::{collections::BTreeSet, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Int8Array,
        Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, Time64MicrosecondArray,
        TimestampMicrosecondArray, new_null_array,
    },
    datatypes::{DataType, SchemaRef, TimeUnit},
};
use coffer_catalog::Manifest;
use coffer_expr::CompileContext;
use coffer_plan::boundary_schema;
use coffer_protocol::plan::Scan;
use datafusion_physical_expr::utils::collect_columns;

use crate::table::Opened;

/// By position in the table. Whatever is not understood is no reason to leave a file out.
pub(crate) fn unneeded(table: &Opened, scan: &Scan) -> BTreeSet<u32> {
    match table {
        Opened::Sealed(table) if !scan.pushed.is_empty() => {
            of_values(table.manifest(), scan).unwrap_or_default()
        }
        Opened::Sealed(_) | Opened::Plain(_) => BTreeSet::new(),
    }
}

fn of_values(manifest: &Manifest, scan: &Scan) -> Option<BTreeSet<u32>> {
    let schema = boundary_schema(scan.schema.as_ref()?).ok()?;
    let values = values(manifest, &schema)?;
    let context = CompileContext::default();
    let mut unneeded = BTreeSet::new();
    for conjunct in &scan.pushed {
        let Ok(condition) = coffer_expr::compile(conjunct, &schema, &context) else {
            continue;
        };
        let columns = collect_columns(&condition);
        let known = columns.iter().all(|column| {
            let name = column.name();
            manifest.partitioned_by().any(|of| of.name == name)
        });
        // A condition without columns is no matter of files.
        if !known || columns.is_empty() {
            continue;
        }
        let passes = condition.evaluate(&values).ok()?;
        let passes = passes.into_array(values.num_rows()).ok()?;
        let passes = passes.as_boolean_opt()?;
        let fails = |row: &usize| passes.is_null(*row) || !passes.value(*row);
        unneeded.extend(
            (0..passes.len())
                .filter(fails)
                .filter_map(|row| u32::try_from(row).ok()),
        );
    }
    Some(unneeded)
}

/// A row for each file, with its partition values; other columns are NULL.
fn values(manifest: &Manifest, schema: &SchemaRef) -> Option<RecordBatch> {
    let partitions: Vec<&str> = (manifest.partitioned_by())
        .map(|column| column.name.as_str())
        .collect();
    if partitions.is_empty() || manifest.files.is_empty() {
        return None;
    }
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let place = partitions.iter().position(|name| *name == field.name());
        columns.push(match place {
            None => new_null_array(field.data_type(), manifest.files.len()),
            Some(place) => {
                let of_files = manifest.files.iter().map(|file| file.partition.get(place));
                let texts: Option<Vec<&Option<String>>> = of_files.collect();
                let texts = texts?.into_iter().map(Option::as_deref).collect();
                typed(field.data_type(), texts)?
            }
        });
    }
    RecordBatch::try_new(Arc::clone(schema), columns).ok()
}

/// Values from their text form (`coffer_format::partition`); none if one is of another form.
fn typed(kind: &DataType, texts: Vec<Option<&str>>) -> Option<ArrayRef> {
    Some(match kind {
        DataType::Boolean => Arc::new(BooleanArray::from(parsed::<bool>(&texts)?)),
        DataType::Int8 => Arc::new(Int8Array::from(parsed::<i8>(&texts)?)),
        DataType::Int16 => Arc::new(Int16Array::from(parsed::<i16>(&texts)?)),
        DataType::Int32 => Arc::new(Int32Array::from(parsed::<i32>(&texts)?)),
        DataType::Int64 => Arc::new(Int64Array::from(parsed::<i64>(&texts)?)),
        DataType::Date32 => Arc::new(Date32Array::from(parsed::<i32>(&texts)?)),
        DataType::Decimal128(precision, scale) => Arc::new(
            Decimal128Array::from(parsed::<i128>(&texts)?)
                .with_precision_and_scale(*precision, *scale)
                .ok()?,
        ),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => Arc::new(
            TimestampMicrosecondArray::from(parsed::<i64>(&texts)?).with_timezone_opt(zone.clone()),
        ),
        DataType::Time64(TimeUnit::Microsecond) => {
            Arc::new(Time64MicrosecondArray::from(parsed::<i64>(&texts)?))
        }
        DataType::Utf8 => Arc::new(StringArray::from(texts)),
        _ => return None,
    })
}

fn parsed<T: std::str::FromStr>(texts: &[Option<&str>]) -> Option<Vec<Option<T>>> {
    let value = |text: &Option<&str>| match text {
        None => Some(None),
        Some(text) => text.parse().ok().map(Some),
    };
    texts.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_from_their_text_or_not_at_all() {
        let texts = || vec![Some("1"), None, Some("-7")];
        for kind in [
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::Date32,
            DataType::Decimal128(9, 2),
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            DataType::Time64(TimeUnit::Microsecond),
            DataType::Utf8,
        ] {
            let array = typed(&kind, texts()).unwrap();
            assert_eq!(array.data_type(), &kind);
            assert!(array.is_null(1) && !array.is_null(0) && array.len() == 3);
        }
        assert!(typed(&DataType::Boolean, texts()).is_none());
        assert!(typed(&DataType::Int8, vec![Some("300")]).is_none());
        assert!(typed(&DataType::Float64, texts()).is_none());
    }
}
