//! What protections show and allow, as the driver's planner is told: the table of `coffer-schemes`
//! in the words of `wire/tables.proto`.

use coffer_catalog::Manifest;
use coffer_format::{StoredColumn, StoredEncoding};
use coffer_protocol::wire::{
    self, Encoding, Shown,
    protection::{Cost, Treatment},
};
use coffer_schemes::{
    Capability, Leakage, Opener, Setting,
    table::{self, TABLE},
};

/// The whole table.
pub(crate) fn table() -> Vec<wire::Protection> {
    let of = |row: &&table::Row| wire::Protection {
        encoding: encoding(StoredEncoding::Of(row.protection)).into(),
        name: row.name.to_owned(),
        numbers: Some(treatment(row.numbers, row.numbers.shows)),
        texts: row.texts.map(|texts| treatment(texts, texts.shows)),
        linked: row.protection.uses(Setting::Link),
        placed: row.needs_position,
        cost: Some(Cost {
            encrypt: row.cost.encrypt,
            open: row.cost.open,
            repeated: row.cost.repeated,
            times: row.cost.times,
            plus: row.cost.plus,
            narrow: row.cost.narrow,
        }),
    };
    TABLE.iter().map(of).collect()
}

/// What one stored column shows and allows.
pub(crate) fn stored(manifest: &Manifest, stored: &StoredColumn) -> Treatment {
    let column = manifest
        .columns
        .iter()
        .find(|column| column.id == stored.column);
    let texts = column.is_some_and(|column| column.kind.is_bytes());
    let Some(found) = stored.treatment(texts) else {
        return Treatment::default();
    };
    let in_paths = manifest.partition_columns.contains(&stored.column);
    let shows: Vec<Leakage> = (found.shows.iter().copied())
        .filter(|shown| *shown != Leakage::Nulls || stored.nullable)
        .map(|shown| match shown {
            Leakage::Values if in_paths => Leakage::ValuesInPaths,
            shown => shown,
        })
        .collect();
    treatment(found, &Leakage::union(shows))
}

fn treatment(of: table::Treatment, shows: &[Leakage]) -> Treatment {
    let shown = |what: &Leakage| Shown {
        what: leakage(*what).into(),
        words: what.words().to_owned(),
    };
    Treatment {
        shows: shows.iter().map(shown).collect(),
        allows: of
            .allows
            .iter()
            .map(|allowed| capability(*allowed).into())
            .collect(),
        opened_by: opener(of.opened_by).into(),
    }
}

/// As which a column is stored. A protection's value is named after it, so that a new one needs no
/// word here.
pub(crate) fn encoding(encoding: StoredEncoding) -> Encoding {
    let name = format!("ENCODING_{}", encoding.name().to_ascii_uppercase());
    Encoding::from_str_name(&name).unwrap_or_default()
}

fn leakage(of: Leakage) -> wire::Leakage {
    match of {
        Leakage::Values => wire::Leakage::Values,
        Leakage::ValuesInPaths => wire::Leakage::ValuesInPaths,
        Leakage::Equality => wire::Leakage::Equality,
        Leakage::Order => wire::Leakage::Order,
        Leakage::PrefixOrder => wire::Leakage::PrefixOrder,
        Leakage::UpperBits => wire::Leakage::UpperBits,
        Leakage::FirstDifference => wire::Leakage::FirstDifference,
        Leakage::SummedRows => wire::Leakage::SummedRows,
        Leakage::Lengths => wire::Leakage::Lengths,
        Leakage::Nulls => wire::Leakage::Nulls,
        Leakage::Sizes => wire::Leakage::Sizes,
    }
}

fn capability(of: Capability) -> wire::Capability {
    match of {
        Capability::Everything => wire::Capability::Everything,
        Capability::Equality => wire::Capability::Equality,
        Capability::Order => wire::Capability::Order,
        Capability::Comparison => wire::Capability::Comparison,
        Capability::PrefixOrder => wire::Capability::PrefixOrder,
        Capability::Sum => wire::Capability::Sum,
        Capability::Carry => wire::Capability::Carry,
    }
}

fn opener(of: Opener) -> wire::Opener {
    match of {
        Opener::Anyone => wire::Opener::Anyone,
        Opener::Enclaves => wire::Opener::Enclaves,
        Opener::Client => wire::Opener::Client,
        Opener::Nobody => wire::Opener::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coffer_schemes::Protection;

    /// The JVM finds the values of these enums by the codes that
    /// `coffer reference --protections --json` has of them.
    #[test]
    fn every_code_is_a_value_of_its_enum() {
        for protection in Protection::ALL {
            assert_ne!(
                encoding(StoredEncoding::Of(protection)),
                Encoding::Unknown,
                "{protection}"
            );
        }
        for of in [StoredEncoding::File, StoredEncoding::Row] {
            assert_ne!(encoding(of), Encoding::Unknown, "{of}");
        }
        let named = |prefix: &str, code: &str| format!("{prefix}_{}", code.to_ascii_uppercase());
        for of in Leakage::ALL {
            assert_eq!(leakage(of).as_str_name(), named("LEAKAGE", of.code()));
        }
        for of in Capability::ALL {
            assert_eq!(capability(of).as_str_name(), named("CAPABILITY", of.code()));
        }
        for of in [
            Opener::Anyone,
            Opener::Enclaves,
            Opener::Client,
            Opener::Nobody,
        ] {
            assert_eq!(opener(of).as_str_name(), named("OPENER", of.code()));
        }
    }
}
