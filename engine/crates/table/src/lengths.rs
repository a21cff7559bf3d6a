//! Lengths and counts that a host wrote into Parquet files, checked before the `parquet` crate believes them.
//!
//! That crate allocates by the length word of an encrypted module, by a footer's number of row groups, by an index's number
//! of pages and by a page's unpacked size, and it goes down a schema's tree one stack frame a level: a few bytes of a host's
//! would end the process. Here each is held against the bytes that are there, or against a stated limit.
//!
//! What is not checked here: what lies inside a compressed page (counts of the delta encodings), and whatever is sealed, since only
//! a holder of the key can have written it.

use crate::{Digest, Error};

/// Unpacked bytes that a page of an unverified input may say it has.
pub const MAX_PAGE: usize = 512 << 20;
/// Nonce and tag of a module.
const MODULE_MIN: usize = 12 + 16;
/// Levels of Thrift values. Parquet's own structures need 7.
const MAX_DEPTH: usize = 24;
/// Levels of a schema, its root included.
const MAX_SCHEMA_DEPTH: usize = 64;

/// Whole modules of an encrypted file, one after the other: `length u32 LE ‖ nonce ‖ ciphertext ‖ tag`.
pub fn check_modules(mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        bytes = after_module(bytes)?;
    }
    Ok(())
}

fn after_module(bytes: &[u8]) -> Result<&[u8], Error> {
    let cut = Error::ParquetLength("a module is longer than what is left of its file");
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(cut);
    };
    let length = u32::from_le_bytes(*length);
    check_module_length(length)?;
    usize::try_from(length)
        .ok()
        .and_then(|length| rest.split_at_checked(length))
        .map(|(_, rest)| rest)
        .ok_or(cut)
}

/// A module's length word alone, for who reads a file piece by piece.
pub(crate) fn check_module_length(length: u32) -> Result<(), Error> {
    match usize::try_from(length) {
        Ok(length) if length >= MODULE_MIN => Ok(()),
        _ => Err(Error::ParquetLength("a module is shorter than a nonce and a tag")),
    }
}

/// An encrypted footer: FileCryptoMetaData in the clear, then one module.
pub(crate) fn check_sealed_footer(bytes: &[u8]) -> Result<(), Error> {
    let mut walk = Walk::over(bytes);
    walk.fields(thrift::FILE_CRYPTO_METADATA, 0)?;
    after_module(walk.rest).map(|_| ())
}

/// A plain footer: FileMetaData.
pub fn check_footer(bytes: &[u8]) -> Result<(), Error> {
    Walk::over(bytes).fields(thrift::FILE_METADATA, 0)
}

/// A column index of an unencrypted file.
pub fn check_column_index(bytes: &[u8]) -> Result<(), Error> {
    Walk::over(bytes).fields(thrift::COLUMN_INDEX, 0)
}

/// An offset index of an unencrypted file.
pub fn check_offset_index(bytes: &[u8]) -> Result<(), Error> {
    Walk::over(bytes).fields(thrift::OFFSET_INDEX, 0)
}

/// Whole pages of an unencrypted column chunk, one after the other: header, then data.
pub fn check_pages(mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        let mut walk = Walk::over(bytes);
        walk.fields(thrift::PAGE_HEADER, 0)?;
        let length =
            |number: i64| usize::try_from(number).map_err(|_| Error::ParquetLength("a page's size is negative"));
        let unpacked = length(walk.unpacked)?;
        if unpacked > MAX_PAGE {
            return Err(Error::ParquetLength("a page of an unverified input is too large"));
        }
        if length(walk.entries)? > unpacked {
            return Err(Error::ParquetLength("a dictionary has more entries than bytes"));
        }
        (_, bytes) = walk
            .rest
            .split_at_checked(length(walk.packed)?)
            .ok_or(Error::ParquetLength("a page is longer than its column chunk"))?;
    }
    Ok(())
}

/// A whole column chunk that lies unencrypted in a sealed table's file: the pinned one, and then also one of sound lengths.
pub fn check_clear_chunk(bytes: &[u8], digest: &Digest) -> Result<(), Error> {
    if Digest::of(bytes) != *digest {
        return Err(Error::ChunkDigest);
    }
    check_pages(bytes)
}

/// A schema's elements in depth-first order: how many children each has. All are there, and none lies too deep.
fn check_tree(children: &[i64]) -> Result<(), Error> {
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
    if open.is_empty() { Ok(()) } else { Err(malformed) }
}

// Kinds of values of Thrift's compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Walks over values of Thrift's compact protocol (thrift/doc/specs/thrift-compact-protocol.md) from the front.
struct Walk<'a> {
    rest: &'a [u8],
    /// Of the schema that is walked over, by element: how many children.
    children: Vec<i64>,
    /// Of a page: its sizes, and its dictionary's entries.
    unpacked: i64,
    packed: i64,
    entries: i64,
}

impl<'a> Walk<'a> {
    fn over(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            children: Vec::new(),
            unpacked: 0,
            packed: 0,
            entries: 0,
        }
    }

    /// A struct. A field that is known must have its kind: the `parquet` crate reads it as that kind, whatever it says it is.
    ///
    /// Ids ascend, and one is written out only where its distance does not fit: the crate reads 16 bits of it, so that a large id could be
    /// another field there.
    fn fields(&mut self, known: &[(i64, Kind)], depth: usize) -> Result<(), Error> {
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
                    self.value(Kind::Struct(thrift::SCHEMA_ELEMENT), kind, depth.saturating_add(1))?;
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

    /// Booleans in lists and maps that it does not know the crate skips as if they took no bytes: what follows would be read in two ways.
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
enum Kind {
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
enum Note {
    Children,
    Unpacked,
    Packed,
    Entries,
}

/// The structs of `parquet.thrift` that a host may have written: fields by id.
mod thrift {
    use super::{
        Kind::{self, Binary, Bool, Byte, Double, Int, List, Noted, Schema, Struct},
        Note,
    };

    type Fields = &'static [(i64, Kind)];

    pub(super) const FILE_METADATA: Fields = &[
        (1, Int),
        (2, Schema),
        (3, Int),
        (4, List(&Struct(ROW_GROUP))),
        (5, List(&Struct(KEY_VALUE))),
        (6, Binary),
        (7, List(&Struct(COLUMN_ORDER))),
        (8, Struct(ALGORITHM)),
        (9, Binary),
    ];
    pub(super) const SCHEMA_ELEMENT: Fields = &[
        (1, Int),
        (2, Int),
        (3, Int),
        (4, Binary),
        (5, Noted(Note::Children)),
        (6, Int),
        (7, Int),
        (8, Int),
        (9, Int),
        (10, Struct(LOGICAL_TYPE)),
    ];
    const LOGICAL_TYPE: Fields = &[
        (1, EMPTY),
        (2, EMPTY),
        (3, EMPTY),
        (4, EMPTY),
        (5, Struct(&[(1, Int), (2, Int)])),
        (6, EMPTY),
        (7, TIME),
        (8, TIME),
        (10, Struct(&[(1, Byte), (2, Bool)])),
        (11, EMPTY),
        (12, EMPTY),
        (13, EMPTY),
        (14, EMPTY),
        (15, EMPTY),
        (16, Struct(&[(1, Byte)])),
        (17, Struct(&[(1, Binary)])),
        (18, Struct(&[(1, Binary), (2, Int)])),
    ];
    const EMPTY: Kind = Struct(&[]);
    const TIME: Kind = Struct(&[(1, Bool), (2, Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);
    const KEY_VALUE: Fields = &[(1, Binary), (2, Binary)];
    const COLUMN_ORDER: Fields = &[(1, EMPTY)];
    const ROW_GROUP: Fields = &[
        (1, List(&Struct(COLUMN_CHUNK))),
        (2, Int),
        (3, Int),
        (4, List(&Struct(&[(1, Int), (2, Bool), (3, Bool)]))),
        (5, Int),
        (6, Int),
        (7, Int),
    ];
    const COLUMN_CHUNK: Fields = &[
        (1, Binary),
        (2, Int),
        (3, Struct(COLUMN_METADATA)),
        (4, Int),
        (5, Int),
        (6, Int),
        (7, Int),
        (
            8,
            Struct(&[(1, EMPTY), (2, Struct(&[(1, List(&Binary)), (2, Binary)]))]),
        ),
        (9, Binary),
    ];
    const COLUMN_METADATA: Fields = &[
        (1, Int),
        (2, List(&Int)),
        (3, List(&Binary)),
        (4, Int),
        (5, Int),
        (6, Int),
        (7, Int),
        (8, List(&Struct(KEY_VALUE))),
        (9, Int),
        (10, Int),
        (11, Int),
        (12, Struct(STATISTICS)),
        (13, List(&Struct(&[(1, Int), (2, Int), (3, Int)]))),
        (14, Int),
        (15, Int),
        (16, Struct(&[(1, Int), (2, List(&Int)), (3, List(&Int))])),
        (17, Struct(&[(1, Struct(BOX)), (2, List(&Int))])),
    ];
    const BOX: Fields = &[
        (1, Double),
        (2, Double),
        (3, Double),
        (4, Double),
        (5, Double),
        (6, Double),
        (7, Double),
        (8, Double),
    ];
    const STATISTICS: Fields = &[
        (1, Binary),
        (2, Binary),
        (3, Int),
        (4, Int),
        (5, Binary),
        (6, Binary),
        (7, Bool),
        (8, Bool),
        (9, Int),
    ];
    pub(super) const FILE_CRYPTO_METADATA: Fields = &[(1, Struct(ALGORITHM)), (2, Binary)];
    const ALGORITHM: Fields = &[(1, AES), (2, AES)];
    const AES: Kind = Struct(&[(1, Binary), (2, Binary), (3, Bool)]);
    pub(super) const PAGE_HEADER: Fields = &[
        (1, Int),
        (2, Noted(Note::Unpacked)),
        (3, Noted(Note::Packed)),
        (4, Int),
        (
            5,
            Struct(&[(1, Int), (2, Int), (3, Int), (4, Int), (5, Struct(STATISTICS))]),
        ),
        (6, EMPTY),
        (7, Struct(&[(1, Noted(Note::Entries)), (2, Int), (3, Bool)])),
        (8, Struct(PAGE_V2)),
    ];
    const PAGE_V2: Fields = &[
        (1, Int),
        (2, Int),
        (3, Int),
        (4, Int),
        (5, Int),
        (6, Int),
        (7, Bool),
        (8, Struct(STATISTICS)),
    ];
    pub(super) const OFFSET_INDEX: Fields = &[(1, List(&Struct(&[(1, Int), (2, Int), (3, Int)]))), (2, List(&Int))];
    pub(super) const COLUMN_INDEX: Fields = &[
        (1, List(&Bool)),
        (2, List(&Binary)),
        (3, List(&Binary)),
        (4, Int),
        (5, List(&Int)),
        (6, List(&Int)),
        (7, List(&Int)),
    ];
}

const TOO_DEEP: Error = Error::ParquetLength("Thrift values are nested too deep");
const CUT: Error = Error::ParquetLength("a Thrift value ends too early");
const TOO_MANY: Error = Error::ParquetLength("a list says it has more elements than there are bytes");
const MALFORMED: Error = Error::ParquetLength("a Thrift value is malformed");

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(result: Result<(), Error>) -> &'static str {
        match result {
            Ok(()) => "ok",
            Err(Error::ParquetLength(reason)) => reason,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn modules_must_be_whole_and_have_room_for_nonce_and_tag() {
        let module = |claimed: u32, bytes: usize| [claimed.to_le_bytes().to_vec(), vec![0; bytes]].concat();
        assert_eq!(reason(check_modules(&[])), "ok");
        assert_eq!(reason(check_modules(&[module(28, 28), module(40, 40)].concat())), "ok");
        assert!(reason(check_modules(&module(27, 27))).contains("shorter"));
        assert!(reason(check_modules(&module(u32::MAX, 28))).contains("longer"));
        assert!(reason(check_modules(&[module(28, 28), vec![9, 0]].concat())).contains("longer"));
    }

    #[test]
    fn a_footer_that_claims_more_row_groups_than_bytes_is_refused() {
        // FileMetaData { 4: list<struct> of 2³¹ − 1 elements }
        let footer = [0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00];
        assert_eq!(check_footer(&footer).unwrap_err().to_string(), TOO_MANY.to_string());
    }

    #[test]
    fn schemas_are_trees_of_a_bounded_depth() {
        assert!(check_tree(&[2, 0, 0]).is_ok());
        assert!(check_tree(&[2, 1, 0, 0]).is_ok());
        for malformed in [&[2, 0][..], &[i64::from(i32::MAX), 0], &[-1]] {
            assert!(check_tree(malformed).is_err(), "{malformed:?}");
        }
        let chain = |levels: usize| [vec![1; levels - 1], vec![0]].concat();
        assert!(check_tree(&chain(MAX_SCHEMA_DEPTH)).is_ok());
        assert!(check_tree(&chain(MAX_SCHEMA_DEPTH + 1)).is_err());
        assert!(check_tree(&chain(1_000_000)).is_err());
    }

    #[test]
    fn nesting_is_bounded() {
        // Structs in structs, and lists of lists, in fields that nobody knows.
        let unknown = |kind: u8, inner: &[u8]| [&[0xf0 | kind], inner].concat();
        assert!(reason(check_footer(&unknown(STRUCT, &vec![0x1c; 100_000]))).contains("deep"));
        assert!(reason(check_footer(&unknown(LIST, &vec![0x19; 100_000]))).contains("deep"));
    }

    #[test]
    fn a_known_field_of_another_kind_is_refused() {
        // FileMetaData { 2: [SchemaElement { 5: a double for num_children }] }: the crate would read a varint there.
        let mut footer = vec![0x29, 0x1c, 0x57];
        footer.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0, 0, 0]);
        assert_eq!(reason(check_footer(&footer)), "a Thrift value is malformed");
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        // FileMetaData { 2: [SchemaElement { 5: one child }, SchemaElement {}], 3: rows … }
        let schema = [0x29, 0x2c, 0x55, 2, 0, 0];
        let with = |field: &[u8]| [&schema, field, &[0]].concat();
        // A field that nobody knows: 15 behind field 2, and far behind it with its id written out (zigzag).
        assert_eq!(reason(check_footer(&with(&[0xf5, 2]))), "ok");
        assert_eq!(reason(check_footer(&with(&[0x05, 0xfe, 0xff, 3, 2]))), "ok");
        for field in [
            // Field 2 again, its id written out; the same as 2 + 2¹⁶; a distance that fits; a negative one.
            &[0x09, 4, 0x0c][..],
            &[0x09, 0x84, 0x80, 8, 0x0c],
            &[0x05, 6, 2],
            &[0x05, 5, 2],
            // Booleans in a list, and as keys and values of a map, that nobody knows.
            &[0xf9, 0x31, 1, 2, 1],
            &[0xfb, 1, 0x15, 1, 2],
            &[0xfb, 1, 0x51, 2, 1],
        ] {
            assert_eq!(
                reason(check_footer(&with(field))),
                "a Thrift value is malformed",
                "{field:02x?}"
            );
        }
    }

    #[test]
    fn pages_must_fit() {
        // PageHeader { 2: unpacked, 3: packed } and so many bytes
        let page = |unpacked: &[u8], packed: u8, bytes: usize| {
            [&[0x25][..], unpacked, &[0x15, packed * 2, 0x00], &vec![7; bytes]].concat()
        };
        assert_eq!(
            reason(check_pages(&[page(&[8], 3, 3), page(&[8], 0, 0)].concat())),
            "ok"
        );
        assert!(reason(check_pages(&page(&[8], 3, 2))).contains("longer"));
        assert!(reason(check_pages(&page(&[7], 3, 3))).contains("negative"));
        assert!(reason(check_pages(&page(&[0xfe, 0xff, 0xff, 0xff, 0x0f], 3, 3))).contains("too large"));
    }
}
