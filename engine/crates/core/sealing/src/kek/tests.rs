//! `vectors/wrapped_deks.json`: base64 as bytes. KEK and data key are repeated bytes.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};

use super::*;
use crate::vectors::{Case, check, flipped};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    kek: u8,
    id: String,
}

impl Context {
    fn kek(&self) -> Kek {
        Kek::new(self.id.parse().unwrap(), Secret::from_bytes([self.kek; 32]))
    }
}

fn table() -> TableId {
    TableId([7; 16])
}

#[test]
fn a_cache_key_is_released_like_a_kek_and_is_no_tables() {
    let session = SessionId([7; 16]);
    let application = crate::DerivationKey::new("cache", &Secret::from_bytes([1; 32]));
    let key = SessionKey::of_cache(&application, session).unwrap();
    let kek = Kek::of_cache(session, &key);
    assert_eq!(kek.id(), KekId::cache(session));
    assert_ne!(kek.id(), KekId::footer(table()));
    assert_eq!(kek.id().to_string().parse(), Ok(kek.id()));
    assert_eq!(kek.id().column_id(), None);
    assert_eq!(kek.cache_key().unwrap().expose(), key.expose());
    let footer = Kek::new(KekId::footer(table()), Secret::from_bytes([1; 32]));
    assert!(footer.cache_key().is_none());
    let other = SessionKey::of_cache(&application, SessionId([8; 16])).unwrap();
    assert_ne!(other.expose(), key.expose());
}

#[test]
fn wrapped_deks() {
    let here = Context {
        kek: 1,
        id: KekId::column(table(), ColumnId(3)).to_string(),
    };
    let footer = Context {
        kek: 1,
        id: KekId::footer(table()).to_string(),
    };
    let wrapped = |dek: &[u8]| {
        let kek = here.kek();
        let sealed = aead::wrap_with([9; 12], kek.expose(), kek.id().to_string().as_bytes(), dek);
        BASE64.encode(sealed.unwrap())
    };
    let whole = wrapped(&[5; 16]);
    let raw = BASE64.decode(&whole).unwrap();
    let altered = |at| BASE64.encode(flipped(&raw, at, 1));
    let new = |name: &str, text: &str, outcome: &str| {
        Case::new(name, here.clone(), text.as_bytes(), outcome)
    };
    let cases = vec![
        new("dek_128", &whole, "opens"),
        new("dek_256", &wrapped(&[5; 32]), "opens"),
        new("dek_empty", "", "wrapped_dek_malformed"),
        new("dek_not_base64", "!!!!", "wrapped_dek_malformed"),
        new(
            "dek_of_a_nonce_only",
            &BASE64.encode(&raw[..12]),
            "wrapped_dek_unauthentic",
        ),
        new(
            "dek_cut",
            &BASE64.encode(&raw[..raw.len() - 1]),
            "wrapped_dek_unauthentic",
        ),
        new(
            "dek_far_too_long",
            &"A".repeat(4096),
            "wrapped_dek_malformed",
        ),
        new("dek_nonce_flipped", &altered(0), "wrapped_dek_unauthentic"),
        new("dek_flipped", &altered(12), "wrapped_dek_unauthentic"),
        new(
            "dek_tag_flipped",
            &altered(raw.len() - 1),
            "wrapped_dek_unauthentic",
        ),
        Case::new(
            "dek_of_other_kek",
            Context {
                kek: 2,
                ..here.clone()
            },
            whole.as_bytes(),
            "wrapped_dek_unauthentic",
        ),
        Case::new(
            "dek_under_other_name",
            footer,
            whole.as_bytes(),
            "wrapped_dek_unauthentic",
        ),
    ];
    check("wrapped_deks.json", cases, |case| {
        let dek = case
            .context
            .kek()
            .unwrap(&String::from_utf8(case.bytes()).unwrap())
            .map_err(|error| error.code())?;
        assert!(dek.iter().all(|byte| *byte == 5), "{}", case.name);
        Ok(())
    });
}

#[test]
fn wrapping_is_random_and_knows_aes() {
    let kek = Kek::new(KekId::footer(table()), Secret::from_bytes([1; 32]));
    assert_ne!(kek.wrap(&[0; 16]).unwrap(), kek.wrap(&[0; 16]).unwrap());
    assert_eq!(kek.wrap(&[0; 15]), Err(KekError::DekLength(15)));
}

#[test]
fn ids_have_one_spelling() {
    let good = [
        KekId::column(table(), ColumnId(0)),
        KekId::column(table(), ColumnId(42)),
        KekId::footer(table()),
    ];
    for id in good {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    let hex = "07".repeat(16);
    for bad in [
        "",
        ".",
        "footer",
        &hex,
        &format!("{hex}."),
        &format!("{hex}.+1"),
        &format!("{hex}.01"),
        &format!("{hex}.Footer"),
    ] {
        assert!(bad.parse::<KekId>().is_err(), "{bad:?}");
    }
    assert!(format!("{}.1", "AB".repeat(16)).parse::<KekId>().is_err());
}

#[test]
fn a_set_gives_only_what_it_holds() {
    let id = KekId::footer(table());
    let mut set = KekSet::new();
    assert_eq!(set.get(&id).err(), Some(KekError::Missing(id)));
    set.insert(Kek::new(id, Secret::from_bytes([1; 32])));
    assert!(set.find(&id.to_string()).is_ok() && set.len() == 1);
    assert_eq!(set.find("x").err(), Some(KekError::BadId("x".into())));
}
