//! Reading: all records in order, each checked before it is given out, and the end against the
//! register.

use std::{
    fs::File,
    io::{BufRead, BufReader, ErrorKind, Read, Take},
};

use coffer_format::Digest;

use crate::{AuditError, AuditLog, Flaw, Record, line, log::End};

/// A log that was read to its end and is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// How many records it has.
    pub records: u64,
    /// A writer was stopped between its record and the register: the last record was granted, and
    /// nothing was released for it.
    pub unfinished: bool,
    /// Bytes of half a record at the end, which a crash left. Nothing was released for it; the next
    /// record takes its place.
    pub torn: u64,
}

/// The records of a log, from the first. Ends after the first error.
pub struct Records<'a> {
    log: &'a AuditLog,
    reader: Option<Take<BufReader<File>>>,
    head: End,
    sequence: u64,
    hash: Digest,
    report: Option<Report>,
}

impl AuditLog {
    /// All records up to now. Writers wait only until the log's length and head are known, not for
    /// the reading: what is there up to the head never changes, and what is behind it is half a
    /// record, or one for which nothing was released.
    pub fn records(&self) -> Result<Records<'_>, AuditError> {
        let _lock = self.lock()?;
        let reader = match File::open(self.path()) {
            Ok(file) => {
                let length = file
                    .metadata()
                    .map_err(AuditError::io("read", self.path()))?
                    .len();
                Some(BufReader::new(file).take(length))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(AuditError::io("open", self.path())(error)),
        };
        Ok(Records {
            log: self,
            reader,
            head: self.head()?,
            sequence: 0,
            hash: Digest::ZERO,
            report: None,
        })
    }

    /// Reads it all. An error names the first record that is not what it should be.
    pub fn verify(&self) -> Result<Report, AuditError> {
        let mut records = self.records()?;
        for record in records.by_ref() {
            record?;
        }
        Ok(records.report.unwrap_or(Report {
            records: 0,
            unfinished: false,
            torn: 0,
        }))
    }
}

impl Records<'_> {
    fn step(&mut self) -> Result<Option<Record>, AuditError> {
        let Some(reader) = &mut self.reader else {
            return self.end(0);
        };
        let mut bytes = Vec::new();
        reader
            .by_ref()
            .take(line::LIMIT)
            .read_until(b'\n', &mut bytes)
            .map_err(AuditError::io("read", self.log.path()))?;
        let Some(found) = bytes.strip_suffix(b"\n") else {
            return self.end(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        };
        let next = self.sequence.saturating_add(1);
        let line = line::decode(self.log.key(), found).map_err(AuditError::broken(next))?;
        line::check_follows(&line.record, self.sequence, self.hash)
            .map_err(AuditError::broken(next))?;
        if next == self.head.sequence && line.hash != self.head.hash {
            return Err(AuditError::broken(next)(Flaw::Replaced));
        }
        if next > self.head.sequence.saturating_add(1) {
            return Err(AuditError::broken(next)(Flaw::Unknown));
        }
        (self.sequence, self.hash) = (next, line.hash);
        Ok(Some(line.record))
    }

    fn end(&mut self, torn: u64) -> Result<Option<Record>, AuditError> {
        if self.sequence < self.head.sequence {
            return Err(AuditError::broken(self.sequence.saturating_add(1))(
                Flaw::Cut,
            ));
        }
        self.report = Some(Report {
            records: self.sequence,
            unfinished: self.sequence > self.head.sequence,
            torn,
        });
        Ok(None)
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, AuditError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.report.is_some() {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.report = Some(Report {
                records: self.sequence,
                unfinished: false,
                torn: 0,
            });
        }
        step.transpose()
    }
}
