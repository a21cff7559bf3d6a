//! From the policy's word on a new table's columns to its stored columns.

use arrow::datatypes::DataType;
use coffer_custody::{ColumnPolicy, LinkKey, Policy, TableKey, TablePolicy, Vault};
use coffer_format::{
    Column, Error as FormatError, SparkType, StoredColumn, StoredEncoding, stored_column::DomainPin,
};
use coffer_schemes::{Protection, Setting};
use coffer_sealing::LinkId;

use crate::{
    Error, Register,
    stored::{LinkKeys, codec, domain},
};

/// Whether any of these columns is to be stored as something else than `tee`.
pub(crate) fn is_needed<'a>(rules: &TablePolicy, names: impl IntoIterator<Item = &'a str>) -> bool {
    let host_readable = |name: &str| {
        let protections = rules.column(name).protections();
        protections
            .iter()
            .any(|protection| protection.is_host_readable())
    };
    names.into_iter().any(host_readable)
}

/// The links of a config directory: found, or made when a column first names them.
pub(crate) struct Links<'a> {
    pub(crate) register: &'a Register,
    pub(crate) vault: &'a Vault,
    pub(crate) policy: &'a Policy,
    /// Those that were asked for.
    pub(crate) keys: LinkKeys,
}

impl Links<'_> {
    /// The link of this name, for columns of such a shape under one form. All its columns have the
    /// same.
    fn link(&mut self, name: &str, encoding: StoredEncoding, shape: &str) -> Result<LinkId, Error> {
        let rules = self.policy.link(name);
        let fresh = match (self.register.has_link(name)?, rules.id()) {
            (true, _) => None,
            (false, Some(id)) => {
                return Err(Error::PolicyHasLink {
                    name: name.to_owned(),
                    id,
                });
            }
            (false, None) => {
                let key = LinkKey::generate(LinkId::draw()?)?;
                Some((key.link(), self.vault.wrap_link(rules.master(), &key)?))
            }
        };
        let record = self
            .register
            .link(self.vault, (name, encoding.name(), shape), fresh)?;
        if let Some(want) = rules.id().filter(|want| *want != record.id) {
            return Err(Error::PolicyLink {
                name: name.to_owned(),
                want,
                got: record.id,
            });
        }
        self.keys.insert(record.id, record.unwrap_key(self.vault)?);
        Ok(record.id)
    }
}

/// The stored columns of a table, one for each protection of each column, and the highest id that
/// was given.
pub(crate) fn lay_out(
    rules: &TablePolicy,
    key: &TableKey,
    columns: &[Column],
    last: u32,
    links: &mut Links<'_>,
) -> Result<(Vec<StoredColumn>, u32), Error> {
    let mut last = last;
    let mut next = || {
        last = last
            .checked_add(1)
            .ok_or(FormatError::Limit("number of columns"))?;
        Ok::<u32, Error>(last)
    };
    let mut stored = Vec::new();
    for column in columns {
        let rules = (rules.column(&column.name), rules);
        for protection in rules.0.protections() {
            let encoding = StoredEncoding::Of(*protection);
            let id = if encoding.is_clear() {
                next()?
            } else {
                column.id
            };
            stored.push(stored_column(rules, key, column, encoding, id, links)?);
        }
        if !stored
            .iter()
            .any(|stored| stored.column == column.id && stored.opens())
        {
            return Err(Error::NotOpenable(column.name.clone()));
        }
    }
    if stored.iter().any(|stored| stored.encoding.needs_position()) {
        for (encoding, kind) in [
            (StoredEncoding::File, SparkType::Binary),
            (StoredEncoding::Row, SparkType::Long),
        ] {
            stored.push(StoredColumn {
                id: next()?,
                column: 0,
                encoding,
                kind,
                nullable: false,
                domain: None,
                link: None,
                prefix: None,
                rows: None,
            });
        }
    }
    Ok((stored, last))
}

fn stored_column(
    (column_rules, rules): (&ColumnPolicy, &TablePolicy),
    key: &TableKey,
    column: &Column,
    encoding: StoredEncoding,
    id: u32,
    links: &mut Links<'_>,
) -> Result<StoredColumn, Error> {
    let numbers = encoding.uses(Setting::Domain);
    let texts = encoding.uses(Setting::Prefix) && column.kind.is_bytes();
    let domain = if numbers && !texts {
        domain_of(column_rules, rules, column)?
    } else {
        None
    };
    let default = coffer_schemes::ColumnSpec::DEFAULT_PREFIX;
    let prefix = texts
        .then(|| {
            column_rules
                .prefix()
                .or_else(|| u32::try_from(default).ok())
        })
        .flatten();
    let mut stored = StoredColumn {
        id,
        column: column.id,
        encoding,
        kind: column.kind.clone(),
        nullable: column.nullable,
        domain,
        link: None,
        prefix,
        rows: None,
    };
    if encoding.uses(Setting::Rows) {
        stored.rows = sum_rows(column_rules, column, domain)?;
    }
    // Whether the scheme takes such a column, before a link is made for it.
    let scheme =
        codec::scheme(key, &LinkKeys::new(), column, &stored).map_err(|error| match error {
            Error::Format(FormatError::Scheme { column, source }) => {
                Error::Unfit { column, source }
            }
            error => error,
        })?;
    if let Some(link) = column_rules.link().filter(|_| encoding.is_linked()) {
        stored.link = Some(links.link(link, encoding, &shape(&stored))?);
    }
    stored.kind = match scheme.stored_type() {
        // A file's column has Parquet's types; what is of one length, the scheme knows.
        DataType::FixedSizeBinary(_) => SparkType::Binary,
        // The values as they are. (Intervals are numbers in Arrow, and times have no digits there.)
        _ if !encoding.is_clear() || encoding == StoredEncoding::Of(Protection::Plain) => {
            column.kind.of_values()
        }
        found => SparkType::from_arrow(&column.name, &found)?,
    };
    Ok(stored)
}

fn domain_of(
    column_rules: &ColumnPolicy,
    rules: &TablePolicy,
    column: &Column,
) -> Result<Option<DomainPin>, Error> {
    if let Some(written) = column_rules.domain() {
        return domain::parse(&column.name, &column.kind, written).map(Some);
    }
    let kind = column.kind.to_string();
    let name = kind.split('(').next().unwrap_or_default();
    match rules.default_domain(name) {
        Some(written) => domain::parse_default(&column.name, &column.kind, written).map(Some),
        None => Ok(None),
    }
}

/// How many rows the policy says that the table has at most: so many of its values add up within 64
/// bits. Where it says nothing, the scheme bounds the rows of a file, and sums that are too long
/// are refused when they are opened.
fn sum_rows(
    rules: &ColumnPolicy,
    column: &Column,
    domain: Option<DomainPin>,
) -> Result<Option<u64>, Error> {
    let domain = domain.or_else(|| domain::of_type(&column.kind));
    let (Some(rows), Some(domain)) = (rules.rows(), domain) else {
        return Ok(None);
    };
    match domain.max.abs_diff(domain.min).checked_mul(rows.into()) {
        Some(sum) if sum < 1 << 64 => Ok(Some(rows)),
        _ => Err(Error::SumRange {
            column: column.name.clone(),
            rows,
        }),
    }
}

/// What columns of a link must have in common under one form. CHAR, VARCHAR and STRING are one
/// type.
fn shape(stored: &StoredColumn) -> String {
    let mut shape = stored.kind.of_values().to_string();
    if let Some(domain) = stored.domain {
        shape.push_str(&format!(" from {} to {}", domain.min, domain.max));
    }
    if let Some(prefix) = stored.prefix {
        shape.push_str(&format!(" by {prefix} bytes"));
    }
    shape
}
