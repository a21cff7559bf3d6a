//! Writing: one record, durable, and then the chain's head in the register.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use coffer_catalog::{AuditHead, Register};
use coffer_custody::{AuditKey, ConfigDir, Keyring};
use coffer_format::Digest;

use crate::{AuditError, Event, Flaw, Record, Who, line};

/// The audit log of one config directory.
pub struct AuditLog {
    path: PathBuf,
    key: AuditKey,
    register: Register,
}

/// Where the chain ends, as the register has it or as it was found to be.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) sequence: u64,
    pub(crate) hash: Digest,
    /// Of the last record, in bytes from the file's start.
    start: u64,
    pub(crate) end: u64,
}

impl End {
    pub(crate) fn of(head: Option<AuditHead>) -> Self {
        match head {
            Some(head) => Self {
                sequence: head.sequence,
                hash: head.hash,
                start: head.start,
                end: head.end,
            },
            None => Self {
                sequence: 0,
                hash: Digest::ZERO,
                start: 0,
                end: 0,
            },
        }
    }

    fn head(self) -> AuditHead {
        AuditHead {
            sequence: self.sequence,
            hash: self.hash,
            start: self.start,
            end: self.end,
        }
    }

    /// After one record more, whose line is so long.
    fn after(self, line: &[u8], hash: Digest) -> Self {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        Self {
            sequence: self.sequence.saturating_add(1),
            hash,
            start: self.end,
            end: self.end.saturating_add(length),
        }
    }
}

impl AuditLog {
    /// Of this config directory, under a key of this keyring. Nothing is read yet.
    pub fn of(config_dir: &ConfigDir, keyring: &Keyring) -> Self {
        Self {
            path: config_dir.audit().join("log"),
            key: keyring.audit_key(),
            register: Register::of(config_dir, keyring),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The key that opens queries' texts.
    pub fn key(&self) -> &AuditKey {
        &self.key
    }

    /// Writes one record. When this returns, it is on the disk and the register knows it; when it
    /// fails, nothing may be released. The record itself may then be in the log all the same, as
    /// something that was granted and not done.
    pub fn append(&self, who: &Who, event: Event) -> Result<(), AuditError> {
        let _lock = self.lock()?;
        let (mut file, made) = self.open()?;
        let found = self.recover(&mut file)?;
        let mut event = event.bounded();
        if event.policy.is_none() {
            event.policy = self
                .register
                .policy_digest()?
                .map(|digest| digest.to_string());
        }
        let record = Record {
            sequence: found.sequence.saturating_add(1),
            previous: found.hash,
            at: now(),
            who: who.bounded(),
            event,
        };
        let (line, hash) = line::encode(&self.key, &record)?;
        let written = file.write_all(&line).and_then(|()| file.sync_data());
        if let Err(source) = written {
            // Half a record would be taken for one that a crash cut off, and removed by the next
            // writer; so it may as well go now.
            let _ = file.set_len(found.end);
            return Err(AuditError::io("write", &self.path)(source));
        }
        if made {
            sync_folder(&self.path)?;
        }
        Ok(self
            .register
            .set_audit_head(found.after(&line, hash).head())?)
    }

    /// Appends take turns; so do those that read while somebody might append.
    pub(crate) fn lock(&self) -> Result<File, AuditError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        if !folder.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(AuditError::io("make the folder of", &self.path))?;
        }
        let path = self.path.with_extension("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(AuditError::io("lock", &path))?;
        lock.lock().map_err(AuditError::io("lock", &path))?;
        Ok(lock)
    }

    pub(crate) fn head(&self) -> Result<End, AuditError> {
        Ok(End::of(self.register.audit_head()?))
    }

    fn open(&self) -> Result<(File, bool), AuditError> {
        let made = !self
            .path
            .try_exists()
            .map_err(AuditError::io("open", &self.path))?;
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)
            .map_err(AuditError::io("open", &self.path))?;
        Ok((file, made))
    }

    /// Where the chain ends, after what a crash left is seen to: a whole record that the register
    /// does not know yet counts, if it is authentic and the only one; half a one is cut off.
    /// Nothing was released for either.
    fn recover(&self, file: &mut File) -> Result<End, AuditError> {
        let head = self.head()?;
        let io = |source| AuditError::io("read", &self.path)(source);
        let length = file.metadata().map_err(io)?.len();
        if length < head.end {
            return Err(AuditError::broken(head.sequence)(Flaw::Cut));
        }
        let last = read(file, head.start, head.end).map_err(io)?;
        if head.sequence > 0 && last.strip_suffix(b"\n").map(Digest::of) != Some(head.hash) {
            return Err(AuditError::broken(head.sequence)(Flaw::Replaced));
        }
        if length == head.end {
            return Ok(head);
        }
        let next = head.sequence.saturating_add(1);
        if length.saturating_sub(head.end) > line::LIMIT {
            return Err(AuditError::broken(next)(Flaw::Malformed));
        }
        let more = read(file, head.end, length).map_err(io)?;
        let Some(at) = more.iter().position(|byte| *byte == b'\n') else {
            file.set_len(head.end)
                .map_err(AuditError::io("mend", &self.path))?;
            return Ok(head);
        };
        let (first, rest) = more
            .split_at_checked(at.saturating_add(1))
            .unwrap_or((&more, &[]));
        let line = line::decode(&self.key, first.strip_suffix(b"\n").unwrap_or(first))
            .map_err(AuditError::broken(next))?;
        line::check_follows(&line.record, head.sequence, head.hash)
            .map_err(AuditError::broken(next))?;
        if !rest.is_empty() {
            return Err(AuditError::broken(next.saturating_add(1))(Flaw::Unknown));
        }
        let found = head.after(first, line.hash);
        // Before anything is written behind it, or the next crash would leave two.
        self.register.set_audit_head(found.head())?;
        Ok(found)
    }
}

fn read(file: &mut File, start: u64, end: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(end.saturating_sub(start))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn sync_folder(path: &Path) -> Result<(), AuditError> {
    File::open(path.parent().unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .map_err(AuditError::io("write", path))
}

/// This moment, as records have it.
pub fn now() -> String {
    text(SystemTime::now().into())
}

/// A time as records have it, from an RFC 3339 text or a day; texts of two times compare as the
/// times do.
pub fn instant(written: &str) -> Option<String> {
    let day = || {
        NaiveDate::parse_from_str(written, "%Y-%m-%d")
            .ok()?
            .and_hms_opt(0, 0, 0)
    };
    match DateTime::parse_from_rfc3339(written) {
        Ok(time) => Some(text(time.to_utc())),
        Err(_) => Some(text(day()?.and_utc())),
    }
}

fn text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}
