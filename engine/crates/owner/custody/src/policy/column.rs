//! What a policy says of one column: its protections, and what their schemes must know.

use std::fmt;

use coffer_protocol::{EvidenceKind, EvidenceKinds};
use coffer_schemes::{Protections, Setting};
use serde::{Deserialize, Deserializer, de};

use crate::policy::{PolicyError, Protection};

/// The values that a column may have, both ends included, as the policy writes them: in the
/// column's own terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The least.
    pub min: String,
    /// The greatest.
    pub max: String,
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

/// What the policy says of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPolicy {
    pub(super) protections: Vec<Protection>,
    pub(super) domain: Option<Domain>,
    pub(super) link: Option<String>,
    pub(super) prefix: Option<u32>,
    pub(super) rows: Option<u64>,
    pub(super) evidence: EvidenceKinds,
}

impl ColumnPolicy {
    pub(super) fn of(protections: Vec<Protection>) -> Self {
        Self {
            protections,
            domain: None,
            link: None,
            prefix: None,
            rows: None,
            evidence: EvidenceKinds::default(),
        }
    }

    /// As which the column is stored, each once; one at least.
    pub fn protections(&self) -> &[Protection] {
        &self.protections
    }

    /// Whether it is one of them.
    pub fn has(&self, protection: Protection) -> bool {
        self.protections.contains(&protection)
    }

    /// The values that it may have, if the column says so.
    pub fn domain(&self) -> Option<&Domain> {
        self.domain.as_ref()
    }

    /// The group of columns, of whatever tables, whose ciphertexts are comparable with this one's.
    pub fn link(&self) -> Option<&str> {
        self.link.as_deref()
    }

    /// How many bytes of a text are in its order.
    pub fn prefix(&self) -> Option<u32> {
        self.prefix
    }

    /// How many rows the table has at most, so that no sum overflows.
    pub fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// The kinds of evidence that an engine must all have shown to get its keys, beside those that
    /// its table wants.
    pub fn evidence(&self) -> &EvidenceKinds {
        &self.evidence
    }

    /// The protections as one text, "tee+ope".
    pub fn text(&self) -> String {
        Protections::new(self.protections.as_slice()).to_string()
    }
}

/// `"tee"`, `["tee", "ope"]`, or a table.
pub(super) enum Written {
    Names(Vec<String>),
    Table(WrittenColumn),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WrittenColumn {
    protection: Option<Names>,
    domain: Option<WrittenDomain>,
    link: Option<String>,
    prefix: Option<u32>,
    rows: Option<Count>,
    evidence: Vec<String>,
}

/// `"tee"` or a list.
pub(super) struct Names(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Names(names) => Ok(Self(names)),
            Written::Table(_) => Err(de::Error::custom("expected a protection or a list of them")),
        }
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a protection, a list of them, or a table with `protection`")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Written, E> {
                Ok(Written::Names(vec![name.to_owned()]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut names: A) -> Result<Written, A::Error> {
                let mut all = Vec::new();
                while let Some(name) = names.next_element()? {
                    all.push(name);
                }
                Ok(Written::Names(all))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
                WrittenColumn::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(Written::Table)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// `[least, greatest]`.
#[derive(Deserialize)]
pub(super) struct WrittenDomain(Bound, Bound);

/// A whole number or a text: fractions are texts, so that none is rounded.
struct Bound(String);

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Bound;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or a text such as \"0.05\" or \"1992-01-01\"")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Bound, E> {
                Ok(Bound(number.to_string()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bound, E> {
                Ok(Bound(text.to_owned()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl From<WrittenDomain> for Domain {
    fn from(WrittenDomain(min, max): WrittenDomain) -> Self {
        Self {
            min: min.0,
            max: max.0,
        }
    }
}

/// A number of rows: `1000000` or `1e6`.
struct Count(u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of rows, such as 1000000 or 1e6")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Count, E> {
                match u64::try_from(number) {
                    Ok(rows) if rows > 0 => Ok(Count(rows)),
                    _ => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Count, E> {
                // Up to 2⁵³ a float is an exact whole number, and its text that of the number.
                let whole =
                    number.fract() == 0.0 && (1.0..=9_007_199_254_740_992.0).contains(&number);
                let rows = whole.then(|| format!("{number}").parse().ok()).flatten();
                rows.map(Count)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// The protections of these names, in order, each once.
pub(super) fn protections(entry: &str, names: &[String]) -> Result<Vec<Protection>, PolicyError> {
    let entry = || entry.to_owned();
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let protection =
            Protection::from_name(name).ok_or_else(|| PolicyError::UnknownProtection {
                entry: entry(),
                name: name.clone(),
            })?;
        if found.contains(&protection) {
            return Err(PolicyError::ProtectionTwice {
                entry: entry(),
                protection,
            });
        }
        found.push(protection);
    }
    if found.is_empty() {
        return Err(PolicyError::NoProtection { entry: entry() });
    }
    if found.contains(&Protection::Plain) && found.len() > 1 {
        return Err(PolicyError::PlainWithOthers { entry: entry() });
    }
    Ok(found)
}

/// Kinds of evidence that are wanted together; none that no engine is accepted by.
pub(super) fn wanted(
    entry: &str,
    names: &[String],
    accepted: &[EvidenceKind],
) -> Result<EvidenceKinds, PolicyError> {
    let mut kinds = EvidenceKinds::default();
    for name in names {
        let kind = EvidenceKind::from_name(name)
            .ok_or_else(|| PolicyError::UnknownEvidence(name.clone()))?;
        if !accepted.contains(&kind) {
            return Err(PolicyError::WantedNotAccepted {
                entry: entry.to_owned(),
                kind,
            });
        }
        kinds.insert(kind);
    }
    Ok(kinds)
}

/// A column as written; what is said that nothing uses is an error.
pub(super) fn column(
    entry: &str,
    written: Written,
    default: &[Protection],
    accepted: &[EvidenceKind],
) -> Result<ColumnPolicy, PolicyError> {
    let written = match written {
        Written::Names(names) => return Ok(ColumnPolicy::of(protections(entry, &names)?)),
        Written::Table(written) => written,
    };
    let column = ColumnPolicy {
        protections: match written.protection {
            Some(Names(names)) => protections(entry, &names)?,
            None => default.to_vec(),
        },
        domain: written.domain.map(Domain::from),
        link: written.link,
        prefix: written.prefix,
        rows: written.rows.map(|Count(rows)| rows),
        evidence: wanted(entry, &written.evidence, accepted)?,
    };
    if let Some(link) = &column.link {
        crate::policy::file::check_name(link)?;
    }
    let message = [
        (Setting::Domain, column.domain.is_some()),
        (Setting::Link, column.link.is_some()),
        (Setting::Prefix, column.prefix.is_some()),
        (Setting::Rows, column.rows.is_some()),
    ];
    for (setting, message) in message {
        if message
            && !column
                .protections
                .iter()
                .any(|protection| protection.uses(setting))
        {
            return Err(PolicyError::UnusedSetting {
                entry: entry.to_owned(),
                setting,
            });
        }
    }
    Ok(column)
}
