//! Opening stored values at the client: ciphertexts that engines carried along, and sums that they
//! took unopened.
//!
//! What comes here from a host that proved nothing is as it says: `det` and `std` values are
//! authentic, wherever the host put them; `ope`, `ore` and `ashe` values are not even that.

use arrow::array::{ArrayRef, BinaryArray};
use coffer_catalog::Codec;
use coffer_format::Error as FormatError;

use crate::{ClientError, table::Opened};

impl Opened {
    /// Opens values of a stored column (`c7`), in the type of the column it holds. `file` and `row`
    /// are the values of the table's `file` and `row` columns in the same rows: `std` and `ashe`
    /// need them.
    pub(crate) fn decrypt(
        &self,
        stored: &str,
        ciphertext: &ArrayRef,
        file: Option<&ArrayRef>,
        row: Option<&ArrayRef>,
    ) -> Result<ArrayRef, ClientError> {
        let (codec, at) = self.codec_of(stored)?;
        Ok(codec.open_scattered(at, ciphertext, file, row)?)
    }

    /// Opens sums over an `ashe` column: states of `coffer_schemes::AsheSum`, one for each row; in
    /// the type that Spark gives to a sum of the column. NULL, and a sum of no value, is NULL.
    pub(crate) fn decrypt_sum(
        &self,
        stored: &str,
        states: &BinaryArray,
    ) -> Result<ArrayRef, ClientError> {
        let (codec, at) = self.codec_of(stored)?;
        Ok(codec.open_sums(at, states)?)
    }

    /// What opens a stored column, and its position there.
    pub(crate) fn codec_of(&self, stored: &str) -> Result<(Codec, usize), ClientError> {
        let unknown = || FormatError::NoSuchColumn(stored.to_owned());
        let Self::Sealed(table) = self else {
            return Err(unknown().into());
        };
        let codec = table.codec()?;
        let at = codec.position(stored).ok_or_else(unknown)?;
        Ok((codec, at))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Array, AsArray, Decimal128Array, Int32Array, Int64Array, RecordBatch, UInt32Array,
    };
    use coffer_catalog::{Error, NewColumns, TableWrite};
    use coffer_custody::{ConfigDir, Keyring, Passphrase, Vault};
    use coffer_format::{StoredColumn, StoredEncoding, WriteOptions, parse_ddl};
    use coffer_schemes::{AsheSum, FileIds, Protection};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    const POLICY: &str = "[tables.t.columns]\n\
        a = [\"det\", \"std\", \"ashe\"]\n\
        d = { protection = [\"ashe\", \"ope\"], domain = [\"-5.00\", \"100.00\"] }\n";

    /// Two files, and what lies in them.
    fn table() -> (tempfile::TempDir, Opened, RecordBatch) {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let config_dir = ConfigDir::at(root.join("config"));
        config_dir.create().unwrap();
        let vault = Vault::from(
            Keyring::create(
                &config_dir.keyring(),
                &Passphrase::new("correct horse").unwrap(),
            )
            .unwrap(),
        );
        let policy = coffer_catalog::policy::replace(&config_dir, vault.keyring(), POLICY).unwrap();
        let new = NewColumns {
            columns: parse_ddl("a INT, d DECIMAL(9,2)").unwrap(),
            ..NewColumns::default()
        };
        let write =
            TableWrite::create(&config_dir, &vault, &policy, "t", &root.join("t"), new).unwrap();
        let writer = write.writer(WriteOptions::default()).unwrap();
        let mut pins = Vec::new();
        let mut batches = Vec::new();
        for from in [0, 50] {
            let numbers = || (from..from + 50).map(|i| (i % 5 != 2).then_some(i));
            let a: ArrayRef = Arc::new(Int32Array::from_iter(numbers()));
            let d = Decimal128Array::from_iter(numbers().map(|i| i.map(|i| i128::from(i) - 20)));
            let d: ArrayRef = Arc::new(d.with_precision_and_scale(9, 2).unwrap());
            let mut file = writer.file().unwrap();
            file.write(&RecordBatch::try_new(Arc::clone(writer.schema()), vec![a, d]).unwrap())
                .unwrap();
            let pin = file.finish().unwrap().pin;
            let bytes = std::fs::File::open(root.join("t").join(&pin.path)).unwrap();
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)
                .unwrap()
                .build()
                .unwrap();
            batches.extend(reader.map(Result::unwrap));
            pins.push(pin);
        }
        let table = write.publish(pins).unwrap();
        let rows = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
        (folder, Opened::Sealed(Box::new(table)), rows)
    }

    fn stored(table: &Opened, column: u32, encoding: StoredEncoding) -> StoredColumn {
        let Opened::Sealed(table) = table else {
            panic!("a plain table");
        };
        let found = |stored: &&StoredColumn| stored.column == column && stored.encoding == encoding;
        table.manifest().stored.iter().find(found).unwrap().clone()
    }

    #[test]
    fn rows_that_were_moved_about_open_by_their_places() {
        let (_folder, table, rows) = table();
        // Every third row, from the last to the first: of both files.
        let picked = UInt32Array::from_iter_values((0..100).rev().step_by(3));
        let taken = arrow::compute::take_record_batch(&rows, &picked).unwrap();
        let column = |column, encoding| {
            Arc::clone(
                taken
                    .column_by_name(&stored(&table, column, encoding).name())
                    .unwrap(),
            )
        };
        let (file, row) = (
            column(0, StoredEncoding::File),
            column(0, StoredEncoding::Row),
        );
        let wanted =
            Int32Array::from_iter((0..100).rev().step_by(3).map(|i| (i % 5 != 2).then_some(i)));
        for encoding in [
            StoredEncoding::Of(Protection::Std),
            StoredEncoding::Of(Protection::Ashe),
            StoredEncoding::Of(Protection::Det),
        ] {
            let name = stored(&table, 1, encoding).name();
            let opened = table
                .decrypt(&name, &column(1, encoding), Some(&file), Some(&row))
                .unwrap();
            assert_eq!(opened.as_ref(), &wanted as &dyn Array, "{encoding}");
        }
        let ope = stored(&table, 2, StoredEncoding::Of(Protection::Ope)).name();
        let opened = table
            .decrypt(
                &ope,
                &column(2, StoredEncoding::Of(Protection::Ope)),
                None,
                None,
            )
            .unwrap();
        assert_eq!(
            opened.data_type(),
            &arrow::datatypes::DataType::Decimal128(9, 2)
        );
        assert_eq!(
            opened
                .as_primitive::<arrow::datatypes::Decimal128Type>()
                .value(0),
            79
        );

        // Of another row, or without a place.
        let std = stored(&table, 1, StoredEncoding::Of(Protection::Std)).name();
        let elsewhere: ArrayRef = Arc::new(Int64Array::from(vec![0; picked.len()]));
        let moved = table.decrypt(
            &std,
            &column(1, StoredEncoding::Of(Protection::Std)),
            Some(&file),
            Some(&elsewhere),
        );
        assert!(matches!(
            moved,
            Err(ClientError::Table(Error::Format(
                FormatError::Scheme { .. }
            )))
        ));
        assert!(
            table
                .decrypt(
                    &std,
                    &column(1, StoredEncoding::Of(Protection::Std)),
                    None,
                    None
                )
                .is_err()
        );
        assert!(table.decrypt("c99", &file, None, None).is_err());
    }

    #[test]
    fn sums_open_in_sparks_type_of_a_sum() {
        let (_folder, table, rows) = table();
        let column = |column, encoding| {
            rows.column_by_name(&stored(&table, column, encoding).name())
                .unwrap()
        };
        let files = FileIds::resolve(column(0, StoredEncoding::File)).unwrap();
        let numbers = column(0, StoredEncoding::Row).as_primitive::<arrow::datatypes::Int64Type>();
        let state = |of| {
            let mut sum = AsheSum::default();
            let values = column(of, StoredEncoding::Of(Protection::Ashe))
                .as_primitive::<arrow::datatypes::Int64Type>();
            sum.add_batch(values, &files, numbers).unwrap();
            sum.encode()
        };
        let wanted: i64 = (0..100).filter(|i| i % 5 != 2).sum();
        let (a, d) = (state(1), state(2));
        let empty = AsheSum::default().encode();
        let states = BinaryArray::from(vec![Some(a.as_slice()), None, Some(empty.as_slice())]);
        let sums = table
            .decrypt_sum(
                &stored(&table, 1, StoredEncoding::Of(Protection::Ashe)).name(),
                &states,
            )
            .unwrap();
        assert_eq!(
            sums.as_ref(),
            &Int64Array::from(vec![Some(wanted), None, None]) as &dyn Array
        );
        let states = BinaryArray::from(vec![Some(d.as_slice())]);
        let sums = table
            .decrypt_sum(
                &stored(&table, 2, StoredEncoding::Of(Protection::Ashe)).name(),
                &states,
            )
            .unwrap();
        let want = Decimal128Array::from(vec![Some(i128::from(wanted) - 80 * 20)]);
        assert_eq!(
            sums.as_ref(),
            &want.with_precision_and_scale(19, 2).unwrap() as &dyn Array
        );
        // Another column's key, and bytes that are no state.
        assert!(
            table
                .decrypt_sum(
                    &stored(&table, 2, StoredEncoding::Of(Protection::Ope)).name(),
                    &states
                )
                .is_err()
        );
        let nonsense = BinaryArray::from(vec![Some(&b"nonsense"[..])]);
        assert!(
            table
                .decrypt_sum(
                    &stored(&table, 1, StoredEncoding::Of(Protection::Ashe)).name(),
                    &nonsense
                )
                .is_err()
        );
    }
}
