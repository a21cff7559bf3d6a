//! Footers of sealed files, pinned as they come: as if a manifest named them.
//!
//! [`SEALED`] takes the AAD prefix (16 bytes), the footer and its tail. [`PLAINTEXT`] takes the
//! FileMetaData and encrypts it under the key of the fixture's file. [`ADOPTED`] takes footers of
//! other programs' files, with the keys that a manifest has of them: the first byte says what is
//! wrong with these keys, if anything.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use bytes::Bytes;
use coffer_format::{
    Adopted, AdoptedKey, Digest, Error, FooterPin, KeyMaterial, footer, lengths, pme::KekSource,
};
use coffer_sealing::ColumnId;

use super::{cut, seed, with};
use crate::{
    Outcome, Seed, Target,
    fixture::{FILE, FOREIGN, FOREIGN_KEYS, TABLE_KEY, footer_of, keks},
    outcome, variant,
};

pub(super) const SEALED: Target = Target {
    name: "footer_sealed",
    about: "encrypted footers of Parquet files",
    memory: |input| 16 * input + (256 << 10),
    smoke: 15_000,
    run,
    seeds,
};

pub(super) const PLAINTEXT: Target = Target {
    name: "footer_plaintext",
    about: "what is inside an encrypted footer",
    // The largest struct of a footer that a byte of it can begin.
    memory: |input| 2048 * input + (1 << 20),
    smoke: 15_000,
    run: run_plaintext,
    seeds: seeds_plaintext,
};

pub(super) const ADOPTED: Target = Target {
    name: "footer_adopted",
    about: "footers of other programs' files, with the keys that a manifest has of them",
    // A footer that is signed only is read in the clear.
    memory: |input| 2048 * input + (1 << 20),
    smoke: 15_000,
    run: run_adopted,
    seeds: seeds_adopted,
};

const PREFIX: usize = 16;

fn run(input: &[u8]) -> Outcome {
    match input.split_at_checked(PREFIX) {
        Some((prefix, bytes)) => outcome(open(prefix, bytes)),
        None => "Nothing".to_owned(),
    }
}

fn open(prefix: &[u8], bytes: &[u8]) -> Result<(), Error> {
    open_as(prefix, None, bytes)
}

fn open_as(prefix: &[u8], adopted: Option<Adopted>, bytes: &[u8]) -> Result<(), Error> {
    let length = bytes.len().saturating_sub(8);
    let pin = FooterPin {
        table: TABLE_KEY.table(),
        size: 4096 + bytes.len() as u64,
        rows: FILE.rows,
        aad_prefix: prefix.to_vec(),
        footer_length: length as u64,
        footer_sha256: Digest::of(&bytes[..length]),
        clear: false,
        adopted,
    };
    pin.range()?;
    footer::open(Bytes::copy_from_slice(bytes), &pin, &keks(), &["a", "s"]).map(|_| ())
}

/// What a holder of the table's key may make a reader allocate is not bounded, so the plaintext is
/// looked at first, as that of a plain file is.
fn run_plaintext(input: &[u8]) -> Outcome {
    if let Err(error) = lengths::check_footer(input) {
        return variant(&error);
    }
    outcome(open(&FILE.aad_prefix, &encrypted(input)))
}

/// The fixture's FileCryptoMetaData, then this plaintext in a module, then the tail.
fn encrypted(plain: &[u8]) -> Vec<u8> {
    let (clear, _) = crypto_metadata();
    let (key, aad) = footer_key();
    let nonce = [9; NONCE_LEN];
    let mut sealed = plain.to_vec();
    let tag = key
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(aad),
            &mut sealed,
        )
        .unwrap();
    let length = u32::try_from(NONCE_LEN + sealed.len() + tag.as_ref().len()).unwrap();
    let mut footer = [
        clear,
        &length.to_le_bytes()[..],
        &nonce[..],
        &sealed[..],
        tag.as_ref(),
    ]
    .concat();
    let tail = u32::try_from(footer.len()).unwrap().to_le_bytes();
    footer.extend_from_slice(&tail);
    footer.extend_from_slice(b"PARE");
    footer
}

/// The fixture's footer in two: FileCryptoMetaData, and the module behind it. The module's length
/// word says where.
fn crypto_metadata() -> (&'static [u8], &'static [u8]) {
    let footer = cut_tail(footer_of(&FILE.bytes));
    let at = (0..footer.len() - 4)
        .find(|at| {
            let length = u32::from_le_bytes(footer[*at..at + 4].try_into().unwrap());
            usize::try_from(length) == Ok(footer.len() - at - 4)
        })
        .unwrap();
    footer.split_at(at)
}

pub(super) fn cut_tail(footer: &[u8]) -> &[u8] {
    &footer[..footer.len() - 8]
}

/// The key of the fixture's footer and its module's associated data: AAD prefix ‖ the file's unique
/// part ‖ 0 (footer).
fn footer_key() -> (LessSafeKey, Vec<u8>) {
    let (clear, _) = crypto_metadata();
    let from = clear.windows(1).position(|byte| byte == b"{").unwrap();
    let to = clear.windows(1).rposition(|byte| byte == b"}").unwrap();
    let material = KeyMaterial::parse(&clear[from..=to]).unwrap();
    let key = keks().data_key(&material).unwrap();
    // AesGcmV1 { 2: binary aad_file_unique } is 8 bytes behind its length.
    let unique = clear
        .windows(2)
        .position(|pair| pair == [0x28, 8] || pair == [0x18, 8])
        .unwrap()
        + 2;
    let aad = [&FILE.aad_prefix[..], &clear[unique..unique + 8], &[0]].concat();
    (
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).unwrap()),
        aad,
    )
}

/// The fixture's FileMetaData, decrypted.
fn metadata() -> Vec<u8> {
    let (_, module) = crypto_metadata();
    let (key, aad) = footer_key();
    let nonce = Nonce::try_assume_unique_for_key(&module[4..4 + NONCE_LEN]).unwrap();
    let mut body = module[4 + NONCE_LEN..].to_vec();
    key.open_in_place(nonce, Aad::from(aad), &mut body)
        .unwrap()
        .to_vec()
}

/// The manifest has the footer as one in the clear.
const CLEAR: u8 = 1;
/// The manifest has no key of column 1.
const KEY_ABSENT: u8 = 2;
/// Column 2's key is wrapped under column 1's KEK.
const KEK_OF_ANOTHER: u8 = 4;
/// Column 1's key goes by other key metadata.
const METADATA_OTHER: u8 = 8;
/// Column 2's key is said to be the footer's.
const COLUMN_AS_FOOTER: u8 = 16;

fn run_adopted(input: &[u8]) -> Outcome {
    let Some((&how, bytes)) = input.split_first() else {
        return "Nothing".to_owned();
    };
    let is = |flag: u8| how & flag != 0;
    let keys = FOREIGN_KEYS
        .iter()
        .filter(|(column, ..)| !(is(KEY_ABSENT) && *column == 1))
        .map(|(column, metadata, key)| {
            let kek = match column {
                0 => TABLE_KEY.footer_kek(),
                2 if is(KEK_OF_ANOTHER) => TABLE_KEY.kek(ColumnId(1)),
                id => TABLE_KEY.kek(ColumnId(*id)),
            };
            let metadata = match column {
                1 if is(METADATA_OTHER) => b"other",
                _ => *metadata,
            };
            AdoptedKey {
                column: if is(COLUMN_AS_FOOTER) && *column == 2 {
                    0
                } else {
                    *column
                },
                metadata: Digest::of(metadata),
                wrapped: kek.unwrap().wrap(key).unwrap(),
            }
        });
    let adopted = Adopted {
        clear_footer: is(CLEAR),
        keys: keys.collect(),
    };
    outcome(open_as(&[], Some(adopted), bytes))
}

fn seeds() -> Vec<Seed> {
    let whole = [&FILE.aad_prefix[..], footer_of(&FILE.bytes)].concat();
    let module = PREFIX + crypto_metadata().0.len();
    let end = whole.len();
    vec![
        seed("footer", whole.clone()),
        seed("nothing", []),
        seed("tail_alone", [&whole[..PREFIX], &whole[end - 8..]].concat()),
        seed("another_prefix", with(&whole, 0, &[whole[0] ^ 1])),
        seed("magic_of_a_plain_file", with(&whole, end - 4, b"PAR1")),
        seed("tail_length", with(&whole, end - 8, &[0xff; 4])),
        seed("crypto_metadata_garbage", with(&whole, PREFIX, &[0xff; 8])),
        seed(
            "crypto_metadata_nested_deep",
            with(&whole, PREFIX, &[0x1c; 60]),
        ),
        seed("module_length_huge", with(&whole, module, &[0xff; 4])),
        seed("module_length_zero", with(&whole, module, &[0; 4])),
        seed(
            "module_length_under_nonce_and_tag",
            with(&whole, module, &[15, 0, 0, 0]),
        ),
        seed(
            "module_flipped",
            with(&whole, module + 20, &[whole[module + 20] ^ 1]),
        ),
        seed("cut", cut(&whole, 9)),
    ]
}

fn seeds_adopted() -> Vec<Seed> {
    let [sealed, signed] = [0, 1].map(|at| footer_of(&FOREIGN[at]));
    let (sealed_as, signed_as) = (
        |how: u8| [&[how], sealed].concat(),
        |how: u8| [&[how | CLEAR], signed].concat(),
    );
    let (whole, clear) = (sealed_as(0), signed_as(0));
    vec![
        seed("sealed", whole.clone()),
        seed("signed", clear.clone()),
        seed("nothing", []),
        seed("sealed_key_absent", sealed_as(KEY_ABSENT)),
        seed("sealed_key_under_another_kek", sealed_as(KEK_OF_ANOTHER)),
        seed("sealed_key_by_other_metadata", sealed_as(METADATA_OTHER)),
        seed("sealed_key_as_the_footers", sealed_as(COLUMN_AS_FOOTER)),
        seed("signed_key_absent", signed_as(KEY_ABSENT)),
        seed("signed_key_under_another_kek", signed_as(KEK_OF_ANOTHER)),
        seed("signed_key_by_other_metadata", signed_as(METADATA_OTHER)),
        seed("signed_key_as_the_footers", signed_as(COLUMN_AS_FOOTER)),
        seed("sealed_marked_as_signed", sealed_as(CLEAR)),
        seed("signed_marked_as_sealed", [&[0], signed].concat()),
        seed(
            "sealed_flipped",
            with(&whole, whole.len() / 2, &[whole[whole.len() / 2] ^ 1]),
        ),
        seed(
            "signed_flipped",
            with(&clear, clear.len() / 2, &[clear[clear.len() / 2] ^ 1]),
        ),
        seed(
            "signature_flipped",
            with(&clear, clear.len() - 9, &[clear[clear.len() - 9] ^ 1]),
        ),
        seed(
            "signature_zeroed",
            with(&clear, clear.len() - 8 - 28, &[0; 28]),
        ),
        seed(
            "signature_cut_off",
            [&clear[..clear.len() - 8 - 28], &clear[clear.len() - 8..]].concat(),
        ),
        seed("sealed_cut", cut(&whole, 9)),
        seed("signed_cut", cut(&clear, 9)),
    ]
}

fn seeds_plaintext() -> Vec<Seed> {
    let whole = metadata();
    // FileMetaData { 4: list<struct> … } after { 1: version, 2: schema, 3: rows }
    vec![
        seed("metadata", whole.clone()),
        seed("nothing", []),
        seed("empty_struct", [0]),
        seed("cut", cut(&whole, 40)),
        seed("cut_in_the_schema", &whole[..20]),
        seed("nested_deep", [0x1c; 400]),
        seed(
            "schema_list_huge",
            [0x15, 2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7, 0],
        ),
        seed(
            "binary_beyond_the_end",
            [0x15, 2, 0x68, 0xff, 0xff, 0xff, 0xff, 7],
        ),
        seed("garbage", [0xff; 64]),
        seed("first_byte_flipped", with(&whole, 0, &[whole[0] ^ 0x10])),
    ]
}
