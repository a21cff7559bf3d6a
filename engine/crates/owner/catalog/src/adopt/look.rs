//! Looking at files of other programs: footers and keys, by the owner's masters.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use coffer_custody::FileKeys;
use coffer_format::{
    Digest, Error as FormatError, FilePin, KeyMaterial, SparkType, char_varchar,
    footer::{self, TAIL_LEN},
    lengths,
    plain::MAX_FOOTER,
    writer::{column_bytes, count, name_parts, row_groups},
};
use coffer_protocol::storage::Reach;
use parquet::{
    encryption::decrypt::KeyRetriever,
    errors::ParquetError,
    file::{column_crypto_metadata::ColumnCryptoMetaData, metadata::ParquetMetaData},
};
use zeroize::Zeroizing;

use crate::{
    Error, MANIFEST_FOLDER, adopt::AdoptError, disk::Folder, foreign, plain, spelling,
    table_file::TableFile,
};

/// A folder of files that other programs encrypted under the owner's masters, none of which is a
/// table's yet.
pub struct Adoption {
    /// By the spelling that the owner wrote.
    pub(super) folder: PathBuf,
    /// That mean it from now on.
    pub(super) spellings: Vec<PathBuf>,
    pub(super) files: Vec<ForeignFile>,
    pub(super) columns: Vec<(String, SparkType, bool)>,
}

pub(super) struct ForeignFile {
    /// What a manifest has of it, but for its keys.
    pub(super) pin: FilePin,
    pub(super) clear_footer: bool,
    pub(super) keys: Vec<ForeignKey>,
}

pub(super) struct ForeignKey {
    /// The column's place; none: the footer's key. A nested column may have several keys.
    pub(super) column: Option<usize>,
    pub(super) metadata: Digest,
    pub(super) dek: Zeroizing<Vec<u8>>,
}

impl Adoption {
    /// Opens the footers of all files of a folder. Each must be encrypted whole, its keys must open
    /// by the masters, and all must have the same columns. Pages are looked at when the table is
    /// made.
    pub fn look(folder: &Path, reach: &Reach, keys: &Arc<FileKeys>) -> Result<Self, Error> {
        let mut found = Self {
            files: Vec::new(),
            columns: Vec::new(),
            spellings: spelling::of_owner(folder)?,
            folder: spelling::normal(folder)?,
        };
        let root = Folder::at(&found.folder, reach.as_ref())?;
        let own = root.names(Path::new(MANIFEST_FOLDER));
        if own.is_ok_and(|own| !own.is_empty()) {
            return Err(AdoptError::Known.into());
        }
        for name in names(&root)? {
            let (file, columns) = look(&found.folder, reach, &name, keys)?;
            if found.files.is_empty() {
                found.columns = columns;
            } else if !plain::merge(&mut found.columns, columns) {
                return Err(AdoptError::Columns(name).into());
            }
            found.files.push(file);
        }
        if found.files.is_empty() {
            return Err(AdoptError::Empty.into());
        }
        Ok(found)
    }

    /// The paths that will mean the table, the one that was written first.
    pub fn spellings(&self) -> &[PathBuf] {
        &self.spellings
    }

    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.pin.size).sum()
    }
}

/// The files of a folder, in order of their names. What begins with `.` or `_` is no data: Spark's
/// markers and checksums are so named. A folder is refused under any name, since another table may
/// lie in it, or a job's files that are still to come; but for our own, which is empty here: an
/// adoption that failed may leave it.
fn names(folder: &Folder) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for (name, is_folder) in folder.names(Path::new(""))? {
        let name = name
            .into_string()
            .map_err(|name| AdoptError::NotParquet(name.to_string_lossy().into_owned()))?;
        if is_folder {
            if name == MANIFEST_FOLDER {
                continue;
            }
            return Err(AdoptError::Folder(name).into());
        }
        if name.starts_with(['.', '_']) {
            continue;
        }
        if name_parts(&name).is_some() {
            return Err(AdoptError::Name(name).into());
        }
        names.push(name);
    }
    names.sort();
    Ok(names)
}

fn look(
    folder: &Path,
    reach: &Reach,
    name: &str,
    keys: &Arc<FileKeys>,
) -> Result<(ForeignFile, Vec<plain::PlainColumn>), Error> {
    let path = folder.join(name);
    let (file, size) = TableFile::open(reach, &path).map_err(Error::io("read", &path))?;
    let footer = read_footer(&file, size, &path, name)?;
    if footer.clear {
        lengths::check_footer(&footer.bytes)?;
    } else {
        lengths::check_sealed_footer(&footer.bytes)?;
    }
    let digest = Digest::of(&footer.bytes);
    let seen = Arc::new(ByMasters::new(Arc::clone(keys)));
    let whole = Bytes::from([footer.bytes.as_slice(), &footer.tail].concat());
    let parsed = footer::parse(whole, footer.size, None, Arc::<ByMasters>::clone(&seen));
    // Why a key does not open says more than that the footer does not.
    let (failure, opened) = seen.finish();
    match failure {
        Some(Error::FileKey(source)) => {
            return Err(AdoptError::Key {
                file: name.to_owned(),
                source,
            }
            .into());
        }
        Some(error) => return Err(in_file(name, error)),
        None => {}
    }
    let metadata = parsed.map_err(|error| in_file(name, error.into()))?;
    if opened.is_empty() {
        return Err(AdoptError::Plain(name.to_owned()).into());
    }
    let keys = keys_of(&metadata, opened, name)?;
    let mut columns = plain::columns(&metadata, &path)?;
    char_varchar::declare(&mut columns, metadata.file_metadata().key_value_metadata())
        .map_err(FormatError::from)?;
    let found = ForeignFile {
        pin: FilePin {
            path: name.to_owned(),
            size: footer.size,
            rows: count(metadata.file_metadata().num_rows()),
            // Where there is one it is stored in the file, and so pinned with the footer.
            aad_prefix: Vec::new(),
            footer_length: u64::try_from(footer.bytes.len()).unwrap_or(u64::MAX),
            footer_sha256: digest,
            row_groups: row_groups(&metadata),
            column_bytes: column_bytes(&metadata, columns.len()),
            chunks: Vec::new(),
            adopted: None,
            partition: Vec::new(),
            host_chosen: false,
        },
        clear_footer: footer.clear,
        keys,
    };
    Ok((found, columns))
}

struct RawFooter {
    bytes: Vec<u8>,
    tail: [u8; 8],
    size: u64,
    clear: bool,
}

fn read_footer(file: &TableFile, size: u64, path: &Path, name: &str) -> Result<RawFooter, Error> {
    let io = |error| Error::io("read", path)(error);
    let not_parquet = || Error::from(AdoptError::NotParquet(name.to_owned()));
    // What is pinned must be there after a crash too.
    file.make_durable().map_err(io)?;
    let start = size.checked_sub(TAIL_LEN).ok_or_else(not_parquet)?;
    let tail = file.range(start..size).map_err(io)?;
    let tail: [u8; 8] = tail.as_ref().try_into().map_err(|_| not_parquet())?;
    let (length, magic) = tail.split_first_chunk::<4>().ok_or_else(not_parquet)?;
    let clear = match magic {
        b"PAR1" => true,
        b"PARE" => false,
        _ => return Err(not_parquet()),
    };
    let length = u64::from(u32::from_le_bytes(*length));
    if length > MAX_FOOTER {
        return Err(AdoptError::Footer {
            file: name.to_owned(),
            length,
        }
        .into());
    }
    let from = start.checked_sub(length).ok_or_else(not_parquet)?;
    let bytes = file.range(from..start).map_err(io)?.to_vec();
    if u64::try_from(bytes.len()) != Ok(length) {
        return Err(not_parquet());
    }
    Ok(RawFooter {
        bytes,
        tail,
        size,
        clear,
    })
}

/// Which column each key is of. Every column must be encrypted.
fn keys_of(
    metadata: &ParquetMetaData,
    mut opened: Opened,
    file: &str,
) -> Result<Vec<ForeignKey>, Error> {
    let shared = |column: String| {
        Error::from(AdoptError::SharedKey {
            file: file.to_owned(),
            column,
        })
    };
    let mut of_columns: BTreeMap<usize, &[u8]> = BTreeMap::new();
    for group in metadata.row_groups() {
        for (at, chunk) in group.columns().iter().enumerate() {
            let name = chunk.column_path().string();
            match chunk.crypto_metadata() {
                Some(ColumnCryptoMetaData::ENCRYPTION_WITH_COLUMN_KEY(key)) => {
                    let bytes = key.key_metadata.as_deref().unwrap_or_default();
                    if *of_columns.entry(at).or_insert(bytes) != bytes {
                        return Err(shared(name));
                    }
                }
                Some(ColumnCryptoMetaData::ENCRYPTION_WITH_FOOTER_KEY) => {}
                None => {
                    return Err(AdoptError::ClearColumn {
                        file: file.to_owned(),
                        column: name,
                    }
                    .into());
                }
            }
        }
    }
    let places = footer::leaf_places(metadata.file_metadata().schema_descr());
    let mut keys: Vec<ForeignKey> = Vec::with_capacity(opened.len());
    for (at, bytes) in of_columns {
        let column = places.get(at).map(|place| place.column);
        let digest = Digest::of(bytes);
        // Leaves of one column may share a key.
        if keys
            .iter()
            .any(|key| key.column == column && key.metadata == digest)
        {
            continue;
        }
        let name = || {
            metadata
                .file_metadata()
                .schema_descr()
                .column(at)
                .name()
                .to_owned()
        };
        // Taken out: two columns cannot have one.
        let dek = opened.remove(bytes).ok_or_else(|| shared(name()))?;
        keys.push(ForeignKey {
            column,
            metadata: digest,
            dek,
        });
    }
    let mut left = opened.into_iter();
    match (left.next(), left.next()) {
        (Some((bytes, dek)), None) => keys.push(ForeignKey {
            column: None,
            metadata: Digest::of(&bytes),
            dek,
        }),
        _ => return Err(AdoptError::FooterKey(file.to_owned()).into()),
    }
    Ok(keys)
}

pub(super) fn in_file(file: &str, source: Error) -> Error {
    AdoptError::File {
        file: file.to_owned(),
        source: Box::new(source),
    }
    .into()
}

/// Data keys by the metadata that names them.
type Opened = BTreeMap<Vec<u8>, Zeroizing<Vec<u8>>>;

/// Opens data keys by the owner's masters, and remembers which.
struct ByMasters {
    keys: Arc<FileKeys>,
    seen: Mutex<(Option<Error>, Opened)>,
}

impl ByMasters {
    fn new(keys: Arc<FileKeys>) -> Self {
        Self {
            keys,
            seen: Mutex::default(),
        }
    }

    /// The first failure, and what was opened.
    fn finish(&self) -> (Option<Error>, Opened) {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn open(&self, metadata: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        foreign::by_masters(&self.keys, &KeyMaterial::parse(metadata)?)
    }
}

impl KeyRetriever for ByMasters {
    fn retrieve_key(&self, metadata: &[u8]) -> Result<Vec<u8>, ParquetError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dek) = seen.1.get(metadata) {
            return Ok(dek.to_vec());
        }
        match self.open(metadata) {
            Ok(dek) => {
                seen.1.insert(metadata.to_vec(), dek.clone());
                Ok(dek.to_vec())
            }
            Err(error) => {
                let text = error.to_string();
                seen.0.get_or_insert(error);
                Err(ParquetError::General(text))
            }
        }
    }
}
