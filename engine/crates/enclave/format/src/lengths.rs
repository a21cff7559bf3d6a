//! Lengths and counts that a host wrote into Parquet files, checked before the `parquet` crate
//! believes them.
//!
//! That crate allocates by the length word of an encrypted module, by a footer's number of row
//! groups, by an index's number of pages and by a page's unpacked size, and it goes down a schema's
//! tree one stack frame a level: a few bytes of a host's would end the process. Here each is held
//! against the bytes that are there, or against a stated limit.
//!
//! What is not checked here: what lies inside a compressed page (counts of the delta encodings),
//! and whatever is sealed, since only a holder of the key can have written it.

mod parquet_thrift;
mod walk;

use walk::Walk;

use crate::{Digest, Error};

/// Unpacked bytes that a page of an unverified input may say it has.
pub const MAX_PAGE: usize = 512 << 20;
/// Nonce and tag of a module.
const MODULE_MIN: usize = 12 + 16;

/// Whole modules of an encrypted file, one after the other:
/// `length u32 LE ‖ nonce ‖ ciphertext ‖ tag`.
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
pub fn check_module_length(length: u32) -> Result<(), Error> {
    match usize::try_from(length) {
        Ok(length) if length >= MODULE_MIN => Ok(()),
        _ => Err(Error::ParquetLength(
            "a module is shorter than a nonce and a tag",
        )),
    }
}

/// An encrypted footer: FileCryptoMetaData in the clear, then one module.
pub fn check_sealed_footer(bytes: &[u8]) -> Result<(), Error> {
    let mut walk = Walk::over(bytes);
    walk.fields(parquet_thrift::FILE_CRYPTO_METADATA, 0)?;
    after_module(walk.rest).map(|_| ())
}

/// A plain footer: FileMetaData.
pub fn check_footer(bytes: &[u8]) -> Result<(), Error> {
    Walk::over(bytes).fields(parquet_thrift::FILE_METADATA, 0)
}

/// A column index of an unencrypted file.
pub fn check_column_index(bytes: &[u8]) -> Result<(), Error> {
    Walk::over(bytes).fields(parquet_thrift::COLUMN_INDEX, 0)
}

/// An offset index of an unencrypted file.
pub fn check_offset_index(bytes: &[u8]) -> Result<(), Error> {
    Walk::over(bytes).fields(parquet_thrift::OFFSET_INDEX, 0)
}

/// Whole pages of an unencrypted column chunk, one after the other: header, then data.
pub fn check_pages(mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        let mut walk = Walk::over(bytes);
        walk.fields(parquet_thrift::PAGE_HEADER, 0)?;
        let length = |number: i64| {
            usize::try_from(number).map_err(|_| Error::ParquetLength("a page's size is negative"))
        };
        let unpacked = length(walk.unpacked)?;
        if unpacked > MAX_PAGE {
            return Err(Error::ParquetLength(
                "a page of an unverified input is too large",
            ));
        }
        if length(walk.entries)? > unpacked {
            return Err(Error::ParquetLength(
                "a dictionary has more entries than bytes",
            ));
        }
        (_, bytes) =
            walk.rest
                .split_at_checked(length(walk.packed)?)
                .ok_or(Error::ParquetLength(
                    "a page is longer than its column chunk",
                ))?;
    }
    Ok(())
}

/// A whole column chunk that lies unencrypted in a sealed table's file: the pinned one, and then
/// also one of sound lengths.
pub fn check_clear_chunk(bytes: &[u8], digest: &Digest) -> Result<(), Error> {
    if Digest::of(bytes) != *digest {
        return Err(Error::ChunkDigest);
    }
    check_pages(bytes)
}

/// A whole column chunk of an unverified input: as it was when the query first read it, and then
/// also one of sound lengths.
pub fn check_plain_chunk(bytes: &[u8], digest: &Digest) -> Result<(), Error> {
    if Digest::of(bytes) != *digest {
        return Err(Error::PlainChanged);
    }
    check_pages(bytes)
}

#[cfg(test)]
mod tests {
    use super::walk::{LIST, MAX_SCHEMA_DEPTH, STRUCT, TOO_MANY, check_tree};
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
        let module =
            |claimed: u32, bytes: usize| [claimed.to_le_bytes().to_vec(), vec![0; bytes]].concat();
        assert_eq!(reason(check_modules(&[])), "ok");
        assert_eq!(
            reason(check_modules(&[module(28, 28), module(40, 40)].concat())),
            "ok"
        );
        assert!(reason(check_modules(&module(27, 27))).contains("shorter"));
        assert!(reason(check_modules(&module(u32::MAX, 28))).contains("longer"));
        assert!(reason(check_modules(&[module(28, 28), vec![9, 0]].concat())).contains("longer"));
    }

    #[test]
    fn a_footer_that_claims_more_row_groups_than_bytes_is_refused() {
        // FileMetaData { 4: list<struct> of 2³¹ − 1 elements }
        let footer = [0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00];
        assert_eq!(
            check_footer(&footer).unwrap_err().to_string(),
            TOO_MANY.to_string()
        );
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
        // FileMetaData { 2: [SchemaElement { 5: a double for num_children }] }: the crate would
        // read a varint there.
        let mut footer = vec![0x29, 0x1c, 0x57];
        footer.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0, 0, 0]);
        assert_eq!(reason(check_footer(&footer)), "a Thrift value is malformed");
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        // FileMetaData { 2: [SchemaElement { 5: one child }, SchemaElement {}], 3: rows … }
        let schema = [0x29, 0x2c, 0x55, 2, 0, 0];
        let with = |field: &[u8]| [&schema, field, &[0]].concat();
        // A field that nobody knows: 15 behind field 2, and far behind it with its id written out
        // (zigzag).
        assert_eq!(reason(check_footer(&with(&[0xf5, 2]))), "ok");
        assert_eq!(reason(check_footer(&with(&[0x05, 0xfe, 0xff, 3, 2]))), "ok");
        for field in [
            // Field 2 again, its id written out; the same as 2 + 2¹⁶; a distance that fits; a
            // negative one.
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
            [
                &[0x25][..],
                unpacked,
                &[0x15, packed * 2, 0x00],
                &vec![7; bytes],
            ]
            .concat()
        };
        assert_eq!(
            reason(check_pages(&[page(&[8], 3, 3), page(&[8], 0, 0)].concat())),
            "ok"
        );
        assert!(reason(check_pages(&page(&[8], 3, 2))).contains("longer"));
        assert!(reason(check_pages(&page(&[7], 3, 3))).contains("negative"));
        assert!(
            reason(check_pages(&page(&[0xfe, 0xff, 0xff, 0xff, 0x0f], 3, 3))).contains("too large")
        );
    }
}
