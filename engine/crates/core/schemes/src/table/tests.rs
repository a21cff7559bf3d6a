use arrow_schema::DataType;

use super::*;
use crate::Domain;

#[test]
fn every_protection_has_one_row() {
    for protection in Protection::ALL {
        let rows = TABLE.iter().filter(|row| row.protection == protection);
        assert_eq!(rows.count(), 1, "{protection}");
        assert_eq!(protection.row().protection, protection);
    }
    let names: std::collections::HashSet<_> = TABLE.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), TABLE.len());
}

/// What these say is in docs/security/threat-model.md, and must not change by accident.
#[test]
fn who_has_no_key_sees_where_nulls_are_under_every_scheme() {
    for row in TABLE {
        for treatment in [Some(row.numbers), row.texts].into_iter().flatten() {
            let is_scheme = !matches!(treatment.opened_by, Opener::Anyone | Opener::Enclaves);
            assert_eq!(
                treatment.shows.contains(&Leakage::Nulls),
                is_scheme,
                "{}",
                row.name
            );
            assert_eq!(
                treatment.allows.contains(&Capability::Carry),
                is_scheme,
                "{}",
                row.name
            );
            assert!(
                treatment.shows.is_sorted() && treatment.allows.is_sorted(),
                "{}",
                row.name
            );
            assert_eq!(
                Leakage::union(treatment.shows.iter().copied()),
                treatment.shows
            );
        }
    }
}

/// What is allowed tells as much as it needs: no capability without the leakage that it is made
/// of.
#[test]
fn what_is_allowed_shows() {
    for row in TABLE {
        for treatment in [Some(row.numbers), row.texts].into_iter().flatten() {
            for allowed in treatment.allows {
                let needs = match allowed {
                    Capability::Everything => Leakage::Values,
                    Capability::Equality => Leakage::Equality,
                    Capability::Order | Capability::Comparison => Leakage::Order,
                    Capability::PrefixOrder => Leakage::PrefixOrder,
                    Capability::Sum => Leakage::SummedRows,
                    Capability::Carry => Leakage::Nulls,
                };
                assert!(
                    treatment.shows.contains(&needs),
                    "{}: {allowed:?}",
                    row.name
                );
            }
        }
    }
}

#[test]
fn schemes_have_their_rows_names_widths_and_texts() {
    let key = SchemeKey::generate().unwrap();
    let numbers = ColumnSpec::new(DataType::Int64).with_domain(Domain::new(0, 1 << 40).unwrap());
    let texts = ColumnSpec::new(DataType::Utf8);
    for row in TABLE {
        let scheme = row.protection.scheme(&key, &numbers).unwrap();
        assert_eq!(scheme.name(), row.name);
        assert_eq!(
            scheme.stored_type() == DataType::Int64,
            row.cost.plus + row.cost.times * 8 == 8
        );
        assert_eq!(
            row.protection.scheme(&key, &texts).is_ok(),
            row.texts.is_some(),
            "{}",
            row.name
        );
    }
}

#[test]
fn schemes_open_sums_where_their_rows_say_so() {
    let key = SchemeKey::generate().unwrap();
    let spec = ColumnSpec::new(DataType::Int64).with_domain(Domain::new(0, 1 << 40).unwrap());
    for row in TABLE {
        let scheme = row.protection.scheme(&key, &spec).unwrap();
        let of_no_row = scheme.open_sum_state(&crate::AsheSum::default().encode());
        let is_summable = row.protection.is_summable();
        assert_eq!(matches!(of_no_row, Ok(None)), is_summable, "{}", row.name);
    }
}

#[test]
fn what_shows_together() {
    use Leakage::{Equality, Nulls, Order, PrefixOrder, Sizes, UpperBits, Values};
    let of = |protections: &[Protection], texts| {
        let shown = protections
            .iter()
            .flat_map(|one| one.treatment(texts).shows);
        Leakage::union(shown.copied())
    };
    assert_eq!(of(&[Protection::Tee], false), [Sizes]);
    assert_eq!(of(&[], false), [Sizes]);
    assert_eq!(of(&[Protection::Plain, Protection::Det], true), [Values]);
    assert_eq!(
        of(&[Protection::Ope, Protection::Tee, Protection::Det], false),
        [Equality, Order, UpperBits, Nulls]
    );
    assert_eq!(
        of(&[Protection::Ope], true),
        [PrefixOrder, UpperBits, Nulls]
    );
    assert_eq!(
        PrefixOrder.words_of_prefix(Some(4)),
        "the order of their first 4 bytes, and which are equal there"
    );
}
