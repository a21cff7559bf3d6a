//! Key-encryption keys of columns and footers: the only table secrets that leave the client site.

use std::{collections::BTreeMap, fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use zeroize::Zeroizing;

use crate::{ColumnId, Secret, SessionId, SessionKey, TableId, aead};

/// Names a KEK: `<table id, hex>.<column id>` or `<table id, hex>.footer`. The Parquet files carry
/// it as the master key's id of the PME key tools. Or `<session id, hex>.cache`: the key of the
/// session that wrote cached rows, which is released like a KEK to the queries that read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KekId {
    table: TableId,
    part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Part {
    Footer,
    Column(ColumnId),
    Cache,
}

impl KekId {
    /// Of a column.
    pub fn column(table: TableId, column: ColumnId) -> Self {
        Self {
            table,
            part: Part::Column(column),
        }
    }

    /// Of the footers.
    pub fn footer(table: TableId) -> Self {
        Self {
            table,
            part: Part::Footer,
        }
    }

    /// Of the rows that a session has written to be cached.
    pub fn cache(session: SessionId) -> Self {
        Self {
            table: TableId(*session.as_bytes()),
            part: Part::Cache,
        }
    }

    /// The table it belongs to.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// The column it belongs to; none for the footers, and for cached rows.
    pub fn column_id(&self) -> Option<ColumnId> {
        match self.part {
            Part::Column(column) => Some(column),
            Part::Footer | Part::Cache => None,
        }
    }
}

impl fmt::Display for KekId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Column(column) => write!(f, "{}.{}", self.table, column.0),
            Part::Footer => write!(f, "{}.footer", self.table),
            Part::Cache => write!(f, "{}.cache", self.table),
        }
    }
}

impl FromStr for KekId {
    type Err = KekError;

    fn from_str(text: &str) -> Result<Self, KekError> {
        let parsed = text.split_once('.').and_then(|(table, rest)| {
            let table = table.parse().ok()?;
            let part = match rest {
                "footer" => Part::Footer,
                "cache" => Part::Cache,
                number => Part::Column(ColumnId(number.parse().ok()?)),
            };
            Some(Self { table, part })
        });
        // One spelling only: no signs, leading zeros or capitals, which would be other associated
        // data.
        parsed
            .filter(|id| id.to_string() == text)
            .ok_or_else(|| KekError::BadId(text.chars().take(80).collect()))
    }
}

/// Why a KEK does not wrap or unwrap. Key ids and wrapped keys come from files: the host's bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KekError {
    /// Not a KEK's id.
    #[error("{0:?} is not the id of a column key")]
    BadId(String),
    /// The set has no such KEK.
    #[error("the key {0} is not at hand")]
    Missing(KekId),
    /// Not base64, or too short.
    #[error("the wrapped key under {0} is malformed")]
    Malformed(KekId),
    /// The tag does not match.
    #[error("the wrapped key under {0} was altered or belongs to another key")]
    Unauthentic(KekId),
    /// The length of a data key that AES does not have.
    #[error("a data key of {0} bytes is not an AES key")]
    DekLength(usize),
    /// Random source or crypto library failed.
    #[error(transparent)]
    Sealing(#[from] crate::Error),
}

impl KekError {
    /// A stable word for the cause.
    pub fn code(&self) -> &'static str {
        match self {
            KekError::BadId(_) => "bad_kek_id",
            KekError::Missing(_) => "missing_kek",
            KekError::Malformed(_) => "wrapped_dek_malformed",
            KekError::Unauthentic(_) => "wrapped_dek_unauthentic",
            KekError::DekLength(_) => "dek_length",
            KekError::Sealing(error) => error.code(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            KekError::BadId(_) => {
                Some("the file was not written by Coffer, or was altered".to_string())
            }
            KekError::Missing(_) => Some(
                "the query was not given this column's key, or the file belongs to another \
                    table"
                    .to_string(),
            ),
            KekError::Malformed(_) | KekError::Unauthentic(_) => Some(
                "the file was altered, or its keys were made under another keyring; try \
                    coffer verify"
                    .to_string(),
            ),
            KekError::DekLength(_) => None,
            KekError::Sealing(error) => error.hint(),
        }
    }
}

/// One KEK. Wraps the data keys of the Parquet files as the PME key tools do.
#[derive(Clone)]
pub struct Kek {
    id: KekId,
    secret: Secret<32>,
}

impl Kek {
    /// A KEK of this name.
    pub fn new(id: KekId, secret: Secret<32>) -> Self {
        Self { id, secret }
    }

    /// Its name.
    pub fn id(&self) -> KekId {
        self.id
    }

    /// The key of a session that wrote cached rows, for whoever reads them.
    pub fn of_cache(session: SessionId, key: &SessionKey) -> Self {
        Self {
            id: KekId::cache(session),
            secret: Secret::from_bytes(*key.expose()),
        }
    }

    /// What [`Kek::of_cache`] was made from; none of any other KEK.
    pub fn cache_key(&self) -> Option<SessionKey> {
        (self.id.part == Part::Cache).then(|| SessionKey::from_secret(self.secret.clone()))
    }

    /// The key's bytes: for a release, and for a KMS client that lets PyArrow or parquet-java read
    /// the files.
    pub fn expose(&self) -> &[u8; 32] {
        self.secret.expose()
    }

    /// `base64(nonce ‖ AES-256-GCM(KEK, data key, AAD = id))`, a fresh random nonce each time.
    pub fn wrap(&self, dek: &[u8]) -> Result<String, KekError> {
        check_length(dek.len())?;
        let sealed = aead::wrap(self.secret.expose(), self.id.to_string().as_bytes(), dek)?;
        Ok(BASE64.encode(sealed.as_slice()))
    }

    /// The data key that [`Kek::wrap`] wrapped.
    pub fn unwrap(&self, wrapped: &str) -> Result<Zeroizing<Vec<u8>>, KekError> {
        let malformed = || KekError::Malformed(self.id);
        if wrapped.len() > 1024 {
            return Err(malformed());
        }
        let bytes = BASE64.decode(wrapped).map_err(|_| malformed())?;
        let dek = aead::unwrap(self.secret.expose(), self.id.to_string().as_bytes(), &bytes)
            .map_err(|error| match error {
                crate::Error::Truncated { .. } => malformed(),
                crate::Error::Unauthentic => KekError::Unauthentic(self.id),
                error => KekError::Sealing(error),
            })?;
        check_length(dek.len())?;
        Ok(dek)
    }
}

fn check_length(dek: usize) -> Result<(), KekError> {
    match dek {
        16 | 24 | 32 => Ok(()),
        length => Err(KekError::DekLength(length)),
    }
}

/// The key that another program wrapped as [`Kek::wrap`] does, under a KEK of 16 or 32 bytes and
/// the name that it has there; none if it does not open.
pub fn unwrap_foreign(kek: &[u8], name: &[u8], wrapped: &str) -> Option<Zeroizing<Vec<u8>>> {
    aead::unwrap(kek, name, &BASE64.decode(wrapped).ok()?).ok()
}

/// The KEKs that a query may use, by name.
#[derive(Clone, Default)]
pub struct KekSet(BTreeMap<KekId, Kek>);

impl KekSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a KEK, replacing one of the same name.
    pub fn insert(&mut self, kek: Kek) {
        self.0.insert(kek.id, kek);
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &KekSet) {
        self.0
            .extend(other.0.iter().map(|(id, kek)| (*id, kek.clone())));
    }

    /// The KEK of this name.
    pub fn get(&self, id: &KekId) -> Result<&Kek, KekError> {
        self.0.get(id).ok_or(KekError::Missing(*id))
    }

    /// The KEK that a file's key metadata names.
    pub fn find(&self, id: &str) -> Result<&Kek, KekError> {
        self.get(&id.parse()?)
    }

    /// Whether it holds this name.
    pub fn contains(&self, id: &KekId) -> bool {
        self.0.contains_key(id)
    }

    /// All, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Kek> {
        self.0.values()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Kek> for KekSet {
    fn from_iter<I: IntoIterator<Item = Kek>>(keks: I) -> Self {
        Self(keks.into_iter().map(|kek| (kek.id, kek)).collect())
    }
}

#[cfg(test)]
mod tests;
