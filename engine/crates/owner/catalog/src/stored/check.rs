//! Whether a manifest's stored columns are such as a writer of ours makes.

use coffer_format::{Column, StoredColumn, StoredEncoding};

use crate::Error;

/// Whether the stored columns are ones that a writer of ours could have made.
pub(crate) fn check(columns: &[Column], stored: &[StoredColumn]) -> Result<(), Error> {
    let malformed = |what: &str| {
        Err(Error::ManifestContent(format!(
            "its stored columns: {what}"
        )))
    };
    if stored.is_empty() {
        return Ok(());
    }
    let mut ids = std::collections::HashSet::new();
    let count = |encoding| {
        stored
            .iter()
            .filter(|stored| stored.encoding == encoding)
            .count()
    };
    for stored in stored {
        if !ids.insert(stored.id) {
            return malformed("two have one id");
        }
        let column = columns.iter().find(|column| column.id == stored.column);
        let taken = columns.iter().any(|column| column.id == stored.id);
        match (stored.encoding, column) {
            (encoding, Some(column))
                // CHAR and VARCHAR are stored as the texts that they are.
                if !encoding.is_clear()
                    && column.id == stored.id
                    && column.kind.of_values() == stored.kind => {}
            (StoredEncoding::File | StoredEncoding::Row, None) if stored.column == 0 && !taken => {}
            (StoredEncoding::File | StoredEncoding::Row, _) | (_, None) => {
                return malformed("one is of no column");
            }
            (encoding, _) if !encoding.is_clear() => return malformed("one is of no column"),
            (_, Some(_)) if taken => return malformed("one has a column's id"),
            (_, Some(_)) => {}
        }
    }
    for column in columns {
        let opens = |stored: &StoredColumn| stored.column == column.id && stored.opens();
        if !stored.iter().any(opens) {
            return malformed("a column opens from none");
        }
    }
    let placed = stored.iter().any(|stored| stored.encoding.needs_position());
    let wanted = usize::from(placed);
    if count(StoredEncoding::File) != wanted || count(StoredEncoding::Row) != wanted {
        return malformed("rows have no place, or two");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use coffer_format::SparkType;
    use coffer_schemes::Protection;

    fn column(id: u32) -> Column {
        Column {
            id,
            name: format!("column {id}"),
            kind: SparkType::Long,
            nullable: true,
            protection: Protection::Det.into(),
        }
    }

    fn stored(id: u32, column: u32, encoding: &str) -> StoredColumn {
        let text = format!(
            r#"{{"id":{id},"column":{column},"form":"{encoding}","type":"{}","nullable":true}}"#,
            if encoding == "det" || encoding == "file" {
                "binary"
            } else {
                "bigint"
            },
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_text_of_a_length_is_stored_as_a_text() {
        let mut columns = [column(1), column(2)];
        columns[0].kind = SparkType::Char { length: 16 };
        let mut all = vec![stored(1, 1, "tee"), stored(3, 2, "det")];
        all[0].kind = SparkType::String;
        check(&columns, &all).unwrap();
        all[0].kind = SparkType::Char { length: 16 };
        assert!(check(&columns, &all).is_err());
    }

    #[test]
    fn what_no_writer_of_ours_could_have_made_is_refused() {
        let columns = [column(1), column(2)];
        let good = [
            stored(1, 1, "tee"),
            stored(3, 1, "det"),
            stored(4, 2, "ashe"),
            stored(5, 0, "file"),
            stored(6, 0, "row"),
        ];
        check(&columns, &good).unwrap();
        check(&columns, &[]).unwrap();
        type Change = fn(&mut Vec<StoredColumn>);
        let changes: [(&str, Change); 10] = [
            ("id twice", |all| all[1].id = 4),
            ("tee of another id", |all| all[0].id = 9),
            ("tee of another type", |all| all[0].kind = SparkType::Int),
            ("a column's id", |all| all[1].id = 2),
            ("of no column", |all| all[1].column = 9),
            ("the file of a column", |all| all[3].column = 1),
            ("no file", |all| {
                all.remove(3);
            }),
            ("two rows", |all| all.push(stored(7, 0, "row"))),
            ("a column that is nowhere", |all| {
                all.remove(2);
            }),
            ("a column of prefixes", |all| {
                all[2].encoding = StoredEncoding::Of(Protection::Ope);
                all[2].prefix = Some(4);
            }),
        ];
        for (name, change) in changes {
            let mut changed = good.to_vec();
            change(&mut changed);
            assert!(check(&columns, &changed).is_err(), "{name}");
        }
    }
}
