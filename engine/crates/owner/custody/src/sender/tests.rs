//! `vectors/releases.json`, and releases between a live owner and engine. The evidence's hash holds
//! this crate's version, so a new version needs its vectors blessed.

use coffer_protocol::{Challenge, evidence::PROTOCOL};
use coffer_release::{EngineKey, ReleaseReceiver, Simulated};
use coffer_sealing::{ColumnId, KekSet, Secret, SessionId, SessionKey, TableId};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::{
    AttestedEngine, NoTee, OwnerKey, Policy, TableKey, attest,
    vectors::{Case, base, check, flipped},
};

/// Private keys and challenge are repeated bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    engine: u8,
    owner: u8,
    challenge: u8,
    application: String,
    sequence: u64,
}

fn here() -> Context {
    Context {
        engine: 1,
        owner: 2,
        challenge: 3,
        application: "app-1".into(),
        sequence: 0,
    }
}

impl Context {
    fn owner(&self) -> OwnerKey {
        OwnerKey::from_secret(Secret::from_bytes([self.owner; 32])).unwrap()
    }

    /// The engine, and what the owner made of its evidence.
    fn meet(&self) -> (ReleaseReceiver, AttestedEngine) {
        let key = EngineKey::insecure_from_secret(Secret::from_bytes([self.engine; 32])).unwrap();
        let mut engine = ReleaseReceiver::new(key, vec![Box::new(Simulated)]);
        let attested = again(&mut engine, self);
        (engine, attested)
    }
}

fn again(engine: &mut ReleaseReceiver, context: &Context) -> AttestedEngine {
    let challenge = Challenge::from_slice(&[context.challenge; 32]).unwrap();
    let owner = context.owner().public();
    let evidence = engine
        .attest(PROTOCOL, owner, &challenge, &context.application)
        .unwrap();
    let policy = Policy::unsigned("[attestation]\naccept = [\"simulated\"]");
    attest(
        &policy,
        &owner,
        challenge,
        &context.application,
        &evidence,
        &NoTee,
    )
    .unwrap()
}

fn payload() -> ReleasePayload {
    let table = TableKey::from_secret(TableId([7; 16]), Secret::from_bytes([8; 32]));
    let keks: KekSet = [table.kek(ColumnId(1)).unwrap(), table.footer_kek().unwrap()]
        .into_iter()
        .collect();
    let session_key = SessionKey::from_secret(Secret::from_bytes([9; 32]));
    ReleasePayload {
        session: SessionId([6; 16]),
        session_key,
        keks,
        lease_seconds: 600,
        engine_age_millis: 1_000,
        session_age_millis: 10,
    }
}

fn same(left: &ReleasePayload, right: &ReleasePayload) -> bool {
    *left.encode() == *right.encode()
}

fn sender(attested: &AttestedEngine, context: &Context) -> ReleaseSender {
    ReleaseSender::new(attested, &context.owner(), &context.application).unwrap()
}

#[test]
fn releases() {
    let whole = base::<Context>("releases.json", "release_whole", || {
        let (_, attested) = here().meet();
        let release = sender(&attested, &here()).release(&payload()).unwrap();
        [release.encapsulated.as_slice(), &release.ciphertext].concat()
    });
    let at =
        |name: &str, context: Context, outcome: &str| Case::new(name, context, &whole, outcome);
    let with = |name: &str, bytes: &[u8], outcome: &str| Case::new(name, here(), bytes, outcome);
    let cases = vec![
        at("release_whole", here(), "opens"),
        at(
            "release_to_other_engine",
            Context {
                engine: 9,
                ..here()
            },
            "release_unauthentic",
        ),
        at(
            "release_from_other_owner",
            Context { owner: 9, ..here() },
            "release_unauthentic",
        ),
        at(
            "release_for_other_challenge",
            Context {
                challenge: 9,
                ..here()
            },
            "release_unauthentic",
        ),
        at(
            "release_for_other_application",
            Context {
                application: "app-2".into(),
                ..here()
            },
            "release_unauthentic",
        ),
        at(
            "release_under_other_sequence",
            Context {
                sequence: 1,
                ..here()
            },
            "release_unauthentic",
        ),
        with(
            "release_encapsulation_flipped",
            &flipped(&whole, 0, 1),
            "release_unauthentic",
        ),
        with(
            "release_encapsulation_zero",
            &[&[0; 32], &whole[32..]].concat(),
            "release_unauthentic",
        ),
        with(
            "release_ciphertext_flipped",
            &flipped(&whole, 60, 1),
            "release_unauthentic",
        ),
        with(
            "release_cut",
            &whole[..whole.len() - 1],
            "release_unauthentic",
        ),
        with(
            "release_without_ciphertext",
            &whole[..32],
            "release_unauthentic",
        ),
    ];
    check("releases.json", cases, |case| {
        let (mut engine, _) = case.context.meet();
        let bytes = case.bytes();
        let (encapsulated, ciphertext) = bytes.split_first_chunk::<32>().unwrap();
        let sequence = case.context.sequence;
        let release = SealedRelease {
            encapsulated: *encapsulated,
            sequence,
            ciphertext: ciphertext.to_vec(),
        };
        let opened = engine.open(&release).map_err(|error| error.code())?;
        assert!(same(&opened, &payload()), "{}", case.name);
        Ok(())
    });
}

#[test]
fn any_order_and_each_once() {
    let (mut engine, attested) = here().meet();
    let mut sender = sender(&attested, &here());
    let sent: Vec<SealedRelease> = (0..5)
        .map(|_| sender.release(&payload()).unwrap())
        .collect();
    for at in [3, 0, 4, 1, 2] {
        assert!(same(&engine.open(&sent[at]).unwrap(), &payload()), "{at}");
    }
    for release in &sent {
        assert_eq!(
            engine.open(release).err(),
            Some(ReleaseError::Replayed(release.sequence))
        );
    }
}

#[test]
fn a_forged_release_uses_up_nothing() {
    let (mut engine, attested) = here().meet();
    let release = sender(&attested, &here()).release(&payload()).unwrap();
    let forged = SealedRelease {
        ciphertext: flipped(&release.ciphertext, 30, 1),
        ..release.clone()
    };
    assert_eq!(engine.open(&forged).err(), Some(ReleaseError::Unauthentic));
    assert!(engine.open(&release).is_ok());
    assert_eq!(engine.open(&forged).err(), Some(ReleaseError::Replayed(0)));
}

#[test]
fn an_engine_attests_again_for_the_next_application() {
    let (mut engine, first) = here().meet();
    let next = Context {
        challenge: 4,
        application: "app-2".into(),
        ..here()
    };
    let second = again(&mut engine, &next);
    let (mut to_first, mut to_second) = (sender(&first, &here()), sender(&second, &next));
    assert!(engine.open(&to_second.release(&payload()).unwrap()).is_ok());
    assert!(engine.open(&to_first.release(&payload()).unwrap()).is_ok());
    // One attestation, one context: a second one for the same evidence finds no offer.
    let mut another = sender(&first, &here());
    assert_eq!(
        engine.open(&another.release(&payload()).unwrap()).err(),
        Some(ReleaseError::Unauthentic)
    );
}

#[test]
fn what_was_forgotten_does_not_open_again() {
    let (mut engine, attested) = here().meet();
    let old = sender(&attested, &here()).release(&payload()).unwrap();
    engine.open(&old).unwrap();
    for challenge in 10..80 {
        let context = Context {
            challenge,
            ..here()
        };
        let attested = again(&mut engine, &context);
        engine
            .open(&sender(&attested, &context).release(&payload()).unwrap())
            .unwrap();
    }
    assert_eq!(engine.open(&old).err(), Some(ReleaseError::Unauthentic));
}

#[test]
fn only_the_owner_of_the_evidence_can_release() {
    let (_, attested) = here().meet();
    let other = Context { owner: 9, ..here() }.owner();
    assert_eq!(
        ReleaseSender::new(&attested, &other, "a").err(),
        Some(ReleaseError::OtherOwner)
    );
    let long = "x".repeat(MAX_APPLICATION + 1);
    let refused = ReleaseSender::new(&attested, &here().owner(), &long);
    assert_eq!(refused.err(), Some(ReleaseError::ApplicationTooLong));
}

#[test]
fn an_engine_that_was_never_asked_opens_nothing() {
    let (_, attested) = here().meet();
    let key = EngineKey::insecure_from_secret(Secret::from_bytes([1; 32])).unwrap();
    let mut engine = ReleaseReceiver::new(key, vec![Box::new(Simulated)]);
    let release = sender(&attested, &here()).release(&payload()).unwrap();
    assert_eq!(engine.open(&release).err(), Some(ReleaseError::Unauthentic));
}

proptest! {
    #[test]
    fn made_up_payloads_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ReleasePayload::decode(&bytes);
        let mut valid_start = payload().encode().to_vec();
        valid_start.truncate(69);
        valid_start.extend(bytes);
        let _ = ReleasePayload::decode(&valid_start);
    }

    #[test]
    fn a_cut_payload_does_not_decode(at in any::<prop::sample::Index>()) {
        let whole = payload().encode();
        prop_assert!(ReleasePayload::decode(&whole[..at.index(whole.len())]).is_err());
        prop_assert!(same(&ReleasePayload::decode(&whole).unwrap(), &payload()));
    }
}
