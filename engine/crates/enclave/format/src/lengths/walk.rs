//! A walk over values of Thrift's compact protocol, which believes no length.

use crate::{Error, lengths::parquet_thrift};

/// Levels of Thrift values. Parquet's own structures need 7.
const MAX_DEPTH: usize = 24;
/// Levels of a schema, its root included. A nested type of 32 levels has two here for each.
pub(super) const MAX_SCHEMA_DEPTH: usize = 72;

// Kinds of values of Thrift's compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Walks over values of Thrift's compact protocol (thrift/doc/specs/thrift-compact-protocol.md)
/// from the front.
pub(super) struct Walk<'a> {
    pub(super) rest: &'a [u8],
    /// Of the schema that is walked over, by element: how many children.
    children: Vec<i64>,
    /// Of a page: its sizes, and its dictionary's entries.
    pub(super) unpacked: i64,
    pub(super) packed: i64,
    pub(super) entries: i64,
}

impl<'a> Walk<'a> {
    pub(super) fn over(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            children: Vec::new(),
            unpacked: 0,
            packed: 0,
            entries: 0,
        }
    }

    /// A struct. A field that is known must have its kind: the `parquet` crate reads it as that
    /// kind, whatever it says it is.
    ///
    /// Ids ascend, and one is written out only where its distance does not fit: the crate reads 16
    /// bits of it, so that a large id could be another field there.
    pub(super) fn fields(&mut self, known: &[(i64, Kind)], depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        let below = depth.saturating_add(1);
        let mut id: i64 = 0;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => match self.number()? {
                    far if far > id.saturating_add(15) => far,
                    _ => return Err(MALFORMED),
                },
                delta => id.saturating_add(i64::from(delta)),
            };
            if id > i64::from(i16::MAX) {
                return Err(MALFORMED);
            }
            match known.iter().find(|(known, _)| *known == id) {
                // As a field, a boolean is its kind.
                Some((_, Kind::Bool)) if matches!(kind, TRUE | FALSE) => {}
                Some((_, wanted)) => self.value(*wanted, kind, below)?,
                None => self.skip(kind, below)?,
            }
        }
    }

    fn value(&mut self, wanted: Kind, kind: u8, depth: usize) -> Result<(), Error> {
        match (wanted, kind) {
            // In a list, a boolean is a byte.
            (Kind::Bool, TRUE | FALSE) | (Kind::Byte, BYTE) => self.byte().map(|_| ()),
            // Integers of all widths are read alike.
            (Kind::Int, I16 | I32 | I64) => self.number().map(|_| ()),
            (Kind::Noted(note), I16 | I32 | I64) => {
                let number = self.number()?;
                match note {
                    Note::Unpacked => self.unpacked = number,
                    Note::Packed => self.packed = number,
                    Note::Entries => self.entries = number,
                    Note::Children => {
                        if let Some(last) = self.children.last_mut() {
                            *last = number;
                        }
                    }
                }
                Ok(())
            }
            (Kind::Double, DOUBLE) | (Kind::Binary, BINARY) => self.skip(kind, depth),
            (Kind::List(wanted), LIST) => {
                let (count, kind) = self.list_head()?;
                (0..count).try_for_each(|_| self.value(*wanted, kind, depth.saturating_add(1)))
            }
            (Kind::Schema, LIST) => {
                self.children.clear();
                let (count, kind) = self.list_head()?;
                for _ in 0..count {
                    self.children.push(0);
                    self.value(
                        Kind::Struct(parquet_thrift::SCHEMA_ELEMENT),
                        kind,
                        depth.saturating_add(1),
                    )?;
                }
                check_tree(&self.children)
            }
            (Kind::Struct(known), STRUCT) => self.fields(known, depth),
            _ => Err(MALFORMED),
        }
    }

    /// A value of a field that the `parquet` crate does not know and skips too.
    fn skip(&mut self, kind: u8, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        let below = depth.saturating_add(1);
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.byte().map(|_| ()),
            I16 | I32 | I64 => self.number().map(|_| ()),
            DOUBLE => self.bytes(8),
            UUID => self.bytes(16),
            BINARY => {
                let length = self.size()?;
                self.bytes(length)
            }
            LIST | SET => {
                let (count, kind) = self.list_head()?;
                (0..count).try_for_each(|_| self.skip_element(kind, below))
            }
            MAP => {
                let count = self.count()?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, below)?;
                    self.skip_element(kinds & 0x0f, below)
                })
            }
            STRUCT => self.fields(&[], below),
            _ => Err(MALFORMED),
        }
    }

    /// Booleans in lists and maps that it does not know the crate skips as if they took no bytes:
    /// what follows would be read in two ways.
    fn skip_element(&mut self, kind: u8, depth: usize) -> Result<(), Error> {
        match kind {
            TRUE | FALSE => Err(MALFORMED),
            kind => self.skip(kind, depth),
        }
    }

    fn list_head(&mut self) -> Result<(usize, u8), Error> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.count()?,
            short => usize::from(short),
        };
        if count > self.rest.len() {
            return Err(TOO_MANY);
        }
        Ok((count, head & 0x0f))
    }

    /// A number of elements, each of which takes a byte at least.
    fn count(&mut self) -> Result<usize, Error> {
        let count = self.size()?;
        if count > self.rest.len() {
            Err(TOO_MANY)
        } else {
            Ok(count)
        }
    }

    fn size(&mut self) -> Result<usize, Error> {
        usize::try_from(self.varint()?).map_err(|_| TOO_MANY)
    }

    /// Zigzag.
    fn number(&mut self) -> Result<i64, Error> {
        let coded = self.varint()?;
        let half = i64::try_from(coded >> 1).map_err(|_| MALFORMED)?;
        Ok(if coded & 1 == 0 { half } else { !half })
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(MALFORMED)
    }

    fn byte(&mut self) -> Result<u8, Error> {
        let (first, rest) = self.rest.split_first().ok_or(CUT)?;
        self.rest = rest;
        Ok(*first)
    }

    fn bytes(&mut self, length: usize) -> Result<(), Error> {
        (_, self.rest) = self.rest.split_at_checked(length).ok_or(CUT)?;
        Ok(())
    }
}

/// What a known field is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Bool,
    Byte,
    Int,
    /// A number that is looked at.
    Noted(Note),
    Double,
    Binary,
    List(&'static Kind),
    Struct(&'static [(i64, Kind)]),
    /// The list of a schema's elements.
    Schema,
}

#[derive(Clone, Copy)]
pub(super) enum Note {
    Children,
    Unpacked,
    Packed,
    Entries,
}

/// A schema's elements in depth-first order: how many children each has. All are there, and none
/// lies too deep.
pub(super) fn check_tree(children: &[i64]) -> Result<(), Error> {
    let malformed = Error::ParquetLength("the schema's tree is malformed or too deep");
    // Of the elements on the way down: how many children are still to come.
    let mut open: Vec<i64> = Vec::new();
    for count in children {
        if let Some(left) = open.last_mut() {
            *left = left.saturating_sub(1);
        }
        if !(0..=i64::try_from(children.len()).unwrap_or(i64::MAX)).contains(count) {
            return Err(malformed);
        }
        open.push(*count);
        if open.len() > MAX_SCHEMA_DEPTH {
            return Err(malformed);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(malformed)
    }
}

const TOO_DEEP: Error = Error::ParquetLength("Thrift values are nested too deep");
const CUT: Error = Error::ParquetLength("a Thrift value ends too early");
pub(super) const TOO_MANY: Error =
    Error::ParquetLength("a list says it has more elements than there are bytes");
const MALFORMED: Error = Error::ParquetLength("a Thrift value is malformed");
