//! Tables, as Spark's planner sees them. Every open pins one version under a handle.

use std::sync::Arc;

use coffer_keys::Policy;
use coffer_proto::{
    plan::{DataType, Field, Schema, TypeId},
    wire::{
        OpenTable, TableInfo,
        table_info::{ColumnInfo, FileInfo, file_info::RowGroup},
    },
};
use coffer_table::{Column, SparkType, Target, VerifiedManifest, open_table};

use crate::{ClientError, Service};

impl Service {
    pub(crate) fn open_table(&self, request: &OpenTable) -> Result<TableInfo, ClientError> {
        // The tables' part of the policy may grow while an application runs; so it is read anew.
        let policy = Policy::load(&self.home.policy())?;
        let target = if request.name.is_empty() {
            Target::path(&request.path)
        } else {
            Target::Name(request.name.clone())
        };
        let table = open_table(&self.home, &self.keyring, &policy, &target)?;
        let mut info = describe(&table)?;
        info.handle = self.keep(table);
        Ok(info)
    }

    pub(crate) fn table(&self, handle: u32) -> Result<Arc<VerifiedManifest>, ClientError> {
        usize::try_from(handle)
            .ok()
            .and_then(|handle| handle.checked_sub(1))
            .and_then(|place| self.inner.lock().tables.get(place).map(Arc::clone))
            .ok_or(ClientError::HandleUnknown(handle))
    }

    fn keep(&self, table: VerifiedManifest) -> u32 {
        let mut inner = self.inner.lock();
        let same = |held: &Arc<VerifiedManifest>| held.hash() == table.hash() && held.folder() == table.folder();
        let place = inner.tables.iter().position(same).unwrap_or_else(|| {
            inner.tables.push(Arc::new(table.clone()));
            inner.tables.len() - 1
        });
        u32::try_from(place + 1).unwrap_or(u32::MAX)
    }
}

fn describe(table: &VerifiedManifest) -> Result<TableInfo, ClientError> {
    let manifest = table.manifest();
    let columns = manifest
        .columns
        .iter()
        .zip(manifest.column_bytes())
        .map(|(column, bytes)| {
            Ok(ColumnInfo {
                protection: column.protection.clone(),
                kek_id: table.kek_id(&column.name)?.to_string(),
                bytes,
            })
        })
        .collect::<Result<_, ClientError>>()?;
    let files = manifest
        .files
        .iter()
        .map(|file| FileInfo {
            row_groups: file
                .row_groups
                .iter()
                .map(|group| RowGroup {
                    rows: group.rows,
                    bytes: group.bytes,
                })
                .collect(),
        })
        .collect();
    Ok(TableInfo {
        handle: 0,
        table_id: manifest.table.to_string(),
        version: manifest.version,
        schema: Some(Schema {
            fields: manifest.columns.iter().map(field).collect(),
        }),
        columns,
        rows: manifest.rows(),
        bytes: manifest.bytes(),
        files,
        name: table.name().to_owned(),
    })
}

fn field(column: &Column) -> Field {
    Field {
        name: column.name.clone(),
        r#type: Some(data_type(column.kind)),
        nullable: column.nullable,
    }
}

/// A column's type in the contract's terms.
pub(crate) fn data_type(kind: SparkType) -> DataType {
    let (id, precision, scale) = match kind {
        SparkType::Boolean => (TypeId::Boolean, 0, 0),
        SparkType::Byte => (TypeId::Byte, 0, 0),
        SparkType::Short => (TypeId::Short, 0, 0),
        SparkType::Int => (TypeId::Int, 0, 0),
        SparkType::Long => (TypeId::Long, 0, 0),
        SparkType::Float => (TypeId::Float, 0, 0),
        SparkType::Double => (TypeId::Double, 0, 0),
        SparkType::Decimal { precision, scale } => (TypeId::Decimal, precision, scale),
        SparkType::String => (TypeId::String, 0, 0),
        SparkType::Binary => (TypeId::Binary, 0, 0),
        SparkType::Date => (TypeId::Date, 0, 0),
        SparkType::Timestamp => (TypeId::Timestamp, 0, 0),
        SparkType::TimestampNtz => (TypeId::TimestampNtz, 0, 0),
    };
    DataType {
        id: id.into(),
        precision: precision.into(),
        scale: scale.into(),
    }
}
