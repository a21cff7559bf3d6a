//! What a write has done so far, so that one that was interrupted can go on.
//!
//! A file of the config directory for each write that keeps one, `writes/<table>-<write>`: a head,
//! then an entry for each finished file with its pin, each sealed for its position under the
//! register's key. Nothing counts for being in it: a write that goes on publishes like any other,
//! and looks at each file anew before. Whoever writes holds the file's lock, which ends with the
//! process.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use coffer_custody::{ConfigDir, Keyring, Policy, RegisterKey, Vault};
use coffer_format::{
    Column, ColumnOrder, Digest, Error as FormatError, FilePin, FooterPin, StoredColumn, WriteId,
    WrittenFile,
};
use coffer_sealing::TableId;
use serde::{Deserialize, Serialize};

use crate::{Error, NewColumns, Register, TableWrite, Version, read::open_pinned, spelling};

const FOLDER: &str = "writes";
/// Longer ones nobody wrote.
const LIMIT: u64 = 1 << 30;

/// The journal of one write.
pub struct Journal {
    path: PathBuf,
    key: RegisterKey,
    table: TableId,
    write: WriteId,
    log: Mutex<Log>,
}

struct Log {
    file: File,
    entries: u64,
}

/// What the write is.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// Of what is written, and how it is cut into pieces.
    job: Digest,
    parent: Option<Version>,
    pub(crate) columns: Vec<Column>,
    pub(crate) stored: Vec<StoredColumn>,
    pub(crate) last_column_id: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    piece: usize,
    pin: FilePin,
    /// By column; true: ascending.
    order: Vec<Option<bool>>,
}

/// A write that goes on.
pub struct Resumed {
    /// The same write, which is not published.
    pub write: TableWrite,
    /// Its journal.
    pub journal: Journal,
    /// The files that are there, by the piece of the source that each was made of.
    pub files: Vec<(usize, WrittenFile)>,
}

/// A journal, and the files of it that are there, by the piece that each was made of.
pub type Noted = (Journal, Vec<(usize, WrittenFile)>);

impl Journal {
    /// Of a write that begins. `job` is a digest of all that decides which rows its pieces have.
    pub fn begin(
        config_dir: &ConfigDir,
        keyring: &Keyring,
        write: &TableWrite,
        job: Digest,
    ) -> Result<Self, Error> {
        let folder = config_dir.path().join(FOLDER);
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        let path = folder.join(name(write.table(), write.id()));
        let file = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(Error::io("create", &path))?;
        file.lock().map_err(Error::io("lock", &path))?;
        let journal = Self {
            path,
            key: keyring.register_key(),
            table: write.table(),
            write: write.id(),
            log: Mutex::new(Log { file, entries: 0 }),
        };
        journal.append(&Head {
            job,
            parent: write.parent.as_ref().map(|parent| parent.version),
            columns: write.columns.clone(),
            stored: write.stored.clone(),
            last_column_id: write.last_column_id,
        })?;
        Ok(journal)
    }

    /// A piece's file is complete and durable.
    pub fn note(&self, piece: usize, file: &WrittenFile) -> Result<(), Error> {
        let order = |order: &Option<ColumnOrder>| order.map(|it| it == ColumnOrder::Ascending);
        self.append(&Entry {
            piece,
            pin: file.pin.clone(),
            order: file.order.iter().map(order).collect(),
        })
    }

    /// The write is over, one way or the other.
    pub fn end(self) -> Result<(), Error> {
        remove(&self.path)
    }

    fn append<T: Serialize>(&self, entry: &T) -> Result<(), Error> {
        let text = serde_json::to_vec(entry);
        let text = text.map_err(|error| Error::RegisterContent(error.to_string()))?;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let position = log.entries.to_le_bytes();
        let position = [
            self.table.as_bytes(),
            self.write.as_bytes().as_slice(),
            &position,
        ];
        let sealed = self.key.seal_entry(&position, &text)?;
        let length = u32::try_from(sealed.len()).map_err(|_| FormatError::Limit("journal"))?;
        let bytes = [length.to_le_bytes().as_slice(), &sealed].concat();
        let written = log
            .file
            .write_all(&bytes)
            .and_then(|()| log.file.sync_data());
        written.map_err(Error::io("write", &self.path))?;
        log.entries = log.entries.saturating_add(1);
        Ok(())
    }

    /// The journal of a table's write of this job that was interrupted, if there is one.
    fn find(
        config_dir: &ConfigDir,
        keyring: &Keyring,
        table: TableId,
        (job, parent): (Digest, Option<Version>),
    ) -> Result<Option<(Self, Head, Vec<Entry>)>, Error> {
        for (path, write) in of_table(&config_dir.path().join(FOLDER), table)? {
            let opened = OpenOptions::new().read(true).write(true).open(&path);
            let mut file = match opened {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("open", &path)(error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                // Somebody writes.
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            }
            let mut bytes = Vec::new();
            (&mut file)
                .take(LIMIT)
                .read_to_end(&mut bytes)
                .map_err(Error::io("read", &path))?;
            let key = keyring.register_key();
            let (texts, length) = opened_entries(&key, (table, write), &bytes);
            let (Some(head), entries) = parsed(&texts) else {
                continue;
            };
            if head.job != job || head.parent != parent {
                continue;
            }
            // What follows was cut in the middle.
            let cut = file
                .set_len(length)
                .and_then(|()| file.seek(SeekFrom::End(0)));
            cut.map_err(Error::io("write", &path))?;
            let journal = Self {
                path,
                key,
                table,
                write,
                log: Mutex::new(Log {
                    file,
                    entries: u64::try_from(texts.len()).unwrap_or(u64::MAX),
                }),
            };
            return Ok(Some((journal, head, entries)));
        }
        Ok(None)
    }
}

/// The journals of a table's writes that were interrupted, and are cleared away with their files.
pub(crate) fn forget(register: &Register, table: TableId) -> Result<(), Error> {
    match register.path().parent() {
        Some(config_dir) => forget_at(config_dir, table),
        None => Ok(()),
    }
}

/// The same in a config directory.
pub(crate) fn forget_at(config_dir: &Path, table: TableId) -> Result<(), Error> {
    for (path, _) in of_table(&config_dir.join(FOLDER), table)? {
        remove(&path)?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

impl TableWrite {
    /// Goes on with a table's first version, whose writing was interrupted: where there is one of
    /// this name, at this path, of the same job, and under the same policy.
    pub fn resume(
        config_dir: &ConfigDir,
        vault: &Vault,
        policy: &Policy,
        (name, folder): (&str, &Path),
        new: NewColumns,
        job: Digest,
    ) -> Result<Option<Resumed>, Error> {
        let register = Register::of(config_dir, vault.keyring());
        let Some(record) = register.by_name(name)? else {
            return Ok(None);
        };
        let is_here = record.committed.is_none() && record.is_at(&spelling::normal(folder)?);
        let Some(first) = record.first().filter(|_| is_here) else {
            return Ok(None);
        };
        let found = Journal::find(config_dir, vault.keyring(), record.id, (job, None))?;
        let Some((journal, head, entries)) = found.filter(|found| found.0.write == first) else {
            return Ok(None);
        };
        let write = Self::first_again(config_dir, vault, policy, record, new, &head)?;
        write
            .map(|write| resumed(write, journal, entries))
            .transpose()
    }

    /// The same of a version after this one: `self`, begun anew, becomes the write that was
    /// interrupted.
    pub fn resume_next(
        mut self,
        config_dir: &ConfigDir,
        vault: &Vault,
        job: Digest,
    ) -> Result<(Self, Option<Noted>), Error> {
        let parent = self.parent.as_ref().map(|parent| parent.version);
        let found = Journal::find(config_dir, vault.keyring(), self.table(), (job, parent))?;
        match found {
            Some((journal, head, entries)) if self.is_as(&head) => {
                self.id = journal.write;
                let Resumed {
                    write,
                    journal,
                    files,
                } = resumed(self, journal, entries)?;
                Ok((write, Some((journal, files))))
            }
            _ => Ok((self, None)),
        }
    }

    fn is_as(&self, head: &Head) -> bool {
        (&self.columns, &self.stored, self.last_column_id)
            == (&head.columns, &head.stored, head.last_column_id)
    }
}

/// Those of a write's files that are whole are not written again.
fn resumed(write: TableWrite, journal: Journal, entries: Vec<Entry>) -> Result<Resumed, Error> {
    let names: Vec<String> = match write.stored.is_empty() {
        true => write.columns.iter().map(|it| it.name.clone()).collect(),
        false => write.stored.iter().map(StoredColumn::name).collect(),
    };
    let columns: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut files = Vec::new();
    for entry in entries {
        let pin = entry.pin;
        let path = write.folder().join(&pin.path);
        let footer = FooterPin::of(write.table(), &pin, !write.stored.is_empty());
        let reach = write.register.reach();
        match open_pinned(reach, &path, &pin, &footer, write.keks(), &columns) {
            Ok(_) => {}
            // Whether it is there is not known.
            Err(error @ Error::Format(FormatError::Io { .. })) => return Err(error),
            Err(_) => continue,
        }
        let order = |up: Option<bool>| {
            up.map(|up| match up {
                true => ColumnOrder::Ascending,
                false => ColumnOrder::Descending,
            })
        };
        let order = entry.order.into_iter().map(order).collect();
        files.push((entry.piece, WrittenFile { pin, order }));
    }
    Ok(Resumed {
        write,
        journal,
        files,
    })
}

fn name(table: TableId, write: WriteId) -> String {
    format!("{table}-{}", String::from(write))
}

fn of_table(folder: &Path, table: TableId) -> Result<Vec<(PathBuf, WriteId)>, Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", folder)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::io("read", folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let write = name
            .and_then(|name| name.strip_prefix(&format!("{table}-")))
            .and_then(|write| WriteId::try_from(write.to_owned()).ok());
        found.extend(write.map(|write| (path, write)));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// The entries up to the first that is not whole, and where that begins.
fn opened_entries(
    key: &RegisterKey,
    (table, write): (TableId, WriteId),
    bytes: &[u8],
) -> (Vec<Vec<u8>>, u64) {
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((sealed, behind)) = behind.split_at_checked(length) else {
            break;
        };
        let position = u64::try_from(texts.len()).unwrap_or(u64::MAX).to_le_bytes();
        let position = [table.as_bytes(), write.as_bytes().as_slice(), &position];
        let Ok(text) = key.open_entry(&position, sealed) else {
            break;
        };
        texts.push(text);
        rest = behind;
    }
    let length = bytes.len().saturating_sub(rest.len());
    (texts, u64::try_from(length).unwrap_or(u64::MAX))
}

fn parsed(texts: &[Vec<u8>]) -> (Option<Head>, Vec<Entry>) {
    let Some((head, entries)) = texts.split_first() else {
        return (None, Vec::new());
    };
    let entries = entries.iter().map(|text| serde_json::from_slice(text));
    match entries.collect() {
        Ok(entries) => (serde_json::from_slice(head).ok(), entries),
        Err(_) => (None, Vec::new()),
    }
}
