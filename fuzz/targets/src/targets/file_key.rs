//! Keys of files that other programs wrote, wrapped by masters of ours, as `coffer adopt` finds
//! them in key metadata. The first byte says how: [`BY_NAME`] and [`BY_MASTER`] take key metadata
//! whole, [`WRAPPED`] the wrapped key behind its Base64.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use coffer_catalog::{
    Error,
    foreign::{NamedKeks, by_masters},
};
use coffer_custody::FileKeyError;
use coffer_format::{KeyMaterial, pme::KekSource};
use zeroize::Zeroizing;

use super::{cut, replaced, seed, with};
use crate::{
    Outcome, Seed, Target,
    fixture::{FILE_KEYS, MASTER},
    outcome,
};

pub(super) const TARGET: Target = Target {
    name: "file_key",
    about: "wrapped keys of other programs' files, wrapped once or twice",
    memory: |input| 16 * input + (64 << 10),
    smoke: 20_000,
    run,
    seeds,
};

/// Key metadata, opened by a key that has a name.
const BY_NAME: u8 = 0;
/// Key metadata, opened by a master.
const BY_MASTER: u8 = 1;
/// What a master wrapped.
const WRAPPED: u8 = 2;

const NAME: &str = "k";
const KEY: [u8; 16] = [4; 16];

fn run(input: &[u8]) -> Outcome {
    match input.split_first() {
        Some((&BY_NAME, metadata)) => outcome(by_name(metadata)),
        Some((&BY_MASTER, metadata)) => outcome(by_master(metadata)),
        Some((_, wrapped)) => outcome(FILE_KEYS.unwrap(MASTER, &BASE64.encode(wrapped))),
        None => "Nothing".to_owned(),
    }
}

fn by_name(metadata: &[u8]) -> Result<usize, Error> {
    Ok(named().data_key(&KeyMaterial::parse(metadata)?)?.len())
}

fn by_master(metadata: &[u8]) -> Result<usize, Error> {
    Ok(by_masters(&FILE_KEYS, &KeyMaterial::parse(metadata)?)?.len())
}

fn named() -> NamedKeks {
    let mut keys = NamedKeks::default();
    keys.insert(NAME.to_owned(), Zeroizing::new(KEY.to_vec()))
        .unwrap();
    keys
}

fn once(master: &str, wrapped: &str) -> String {
    format!(
        r#"{{"keyMaterialType":"PKMT1","internalStorage":true,"isFooterKey":false,
            "masterKeyID":"{master}","wrappedDEK":"{wrapped}","doubleWrapping":false}}"#
    )
}

/// `inner`: the wrapped key that wraps the data key; `id`: its name, which is the associated data
/// of `wrapped`.
fn twice(master: &str, inner: &str, id: &str, wrapped: &str) -> String {
    let once = once(master, wrapped);
    let more =
        format!(r#""doubleWrapping":true,"keyEncryptionKeyID":"{id}","wrappedKEK":"{inner}""#);
    replaced(&once, "\"doubleWrapping\":false", &more)
}

/// AES-GCM as parquet-java's local wrapping has it: nonce, ciphertext, tag, in Base64.
fn sealed(key: &[u8], aad: &[u8], plain: &[u8]) -> String {
    use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).unwrap());
    let nonce = [9; NONCE_LEN];
    let mut body = plain.to_vec();
    key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(aad),
        &mut body,
    )
    .unwrap();
    BASE64.encode([&nonce[..], &body].concat())
}

fn seeds() -> Vec<Seed> {
    let (inner, data) = ([6; 16], [5; 16]);
    let id = BASE64.encode(b"inner");
    let as_input = |mode: u8, bytes: &[u8]| [&[mode], bytes].concat();
    let named = |text: &str| as_input(BY_NAME, text.as_bytes());
    let by_master = |text: &str| as_input(BY_MASTER, text.as_bytes());

    let under_inner = sealed(&inner, b"inner", &data);
    let named_once = once(NAME, &sealed(&KEY, NAME.as_bytes(), &data));
    let named_twice = twice(
        NAME,
        &sealed(&KEY, NAME.as_bytes(), &inner),
        &id,
        &under_inner,
    );
    let wrap = |key: &[u8]| {
        FILE_KEYS
            .wrap(MASTER, key, |_, _| Ok::<_, FileKeyError>(()))
            .unwrap()
    };
    let text = wrap(&data);
    let master_twice = twice(MASTER, &wrap(&inner), &id, &under_inner);
    // "CFPK", id 16, length of the envelope u32, the envelope, the blob.
    let wrapped = as_input(WRAPPED, &BASE64.decode(&text).unwrap());
    let at = |position: usize, bytes: &[u8]| with(&wrapped, 1 + position, bytes);
    vec![
        seed("named_once", named(&named_once)),
        seed("named_twice", named(&named_twice)),
        seed("master_once", by_master(&once(MASTER, &text))),
        seed("master_twice", by_master(&master_twice)),
        seed("wrapped", wrapped.clone()),
        seed("nothing", []),
        seed("metadata_cut", cut(&named(&named_twice), 9)),
        seed("name_not_held", named(&once("q", &under_inner))),
        seed(
            "twice_without_the_inner_key",
            named(&replaced(&named_twice, "wrappedKEK", "wrappedKEX")),
        ),
        seed(
            "twice_with_the_inner_key_of_another_name",
            named(&replaced(&named_twice, &id, &BASE64.encode(b"other"))),
        ),
        seed(
            "twice_with_an_inner_key_of_nine_bytes",
            named(&twice(
                NAME,
                &sealed(&KEY, NAME.as_bytes(), &[6; 9]),
                &id,
                &under_inner,
            )),
        ),
        seed(
            "twice_with_an_empty_data_key",
            named(&replaced(&named_twice, &under_inner, "")),
        ),
        seed(
            "twice_with_a_name_not_base64",
            named(&replaced(&named_twice, &id, "***")),
        ),
        seed("master_of_another_name", by_master(&once("other", &text))),
        seed(
            "master_wrapped_by_name",
            by_master(&named_twice.replace("\"k\"", "\"main\"")),
        ),
        seed(
            "wrapped_text_too_long",
            by_master(&once(MASTER, &"A".repeat(15 << 10))),
        ),
        seed("wrapped_magic", at(0, b"CFPL")),
        seed("wrapped_id_flipped", at(5, &[wrapped[6] ^ 1])),
        seed("wrapped_envelope_length_huge", at(20, &[0xff; 4])),
        seed("wrapped_envelope_length_zero", at(20, &[0; 4])),
        seed("wrapped_envelope_flipped", at(40, &[wrapped[41] ^ 1])),
        seed(
            "wrapped_blob_flipped",
            with(
                &wrapped,
                wrapped.len() - 1,
                &[wrapped[wrapped.len() - 1] ^ 1],
            ),
        ),
        seed("wrapped_cut_in_the_id", &wrapped[..9]),
        seed("wrapped_cut_in_the_blob", cut(&wrapped, 20)),
    ]
}
