//! The engine's side: makes evidence, and opens what is released on its strength.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Instant,
};

use coffer_sealing::open_blob;
use hpke::{Deserializable, OpModeR, aead::AeadCtxR};
use zeroize::Zeroizing;

use coffer_protocol::{
    OwnerPublicKey,
    evidence::{
        Challenge, EnginePublicKey, Evidence, EvidenceError, PROTOCOL, Report, VERSION, report_data,
    },
    release::{
        Aead, BLOB_LABEL, Kdf, Kem, KeyPair, MAX_APPLICATION, Public, ReleaseError, ReleasePayload,
        SealedRelease, info, release_root,
    },
};

use crate::Issuer;

/// How many attestations may wait for their first release, and how many contexts are kept. A host
/// that attests for fun only pushes out its own: nothing forgotten can be accepted again, for a
/// release needs its attestation.
const KEPT: usize = 64;

/// An engine's key pair, made at start, gone with the process.
pub struct EngineKey(KeyPair);

impl EngineKey {
    /// A fresh pair.
    pub fn generate() -> Result<Self, coffer_sealing::Error> {
        Ok(Self(KeyPair::generate()?))
    }

    /// A pair that is no secret any more: for test vectors.
    pub fn insecure_from_secret(
        secret: coffer_sealing::Secret<32>,
    ) -> Result<Self, coffer_sealing::Error> {
        Ok(Self(KeyPair::from_secret(secret)?))
    }

    /// The public half.
    pub fn public(&self) -> EnginePublicKey {
        EnginePublicKey(self.0.public)
    }
}

/// The attestations and releases of one engine.
pub struct ReleaseReceiver {
    key: EngineKey,
    issuers: Vec<Box<dyn Issuer>>,
    owner: Option<OwnerPublicKey>,
    offers: VecDeque<Offer>,
    contexts: VecDeque<Context>,
}

/// Evidence given, whose first release is to come.
struct Offer {
    info: Vec<u8>,
    given: Instant,
}

/// What an offer became by its first authentic release: one offer, one context.
struct Context {
    encapsulated: [u8; 32],
    hpke: AeadCtxR<Aead, Kdf, Kem>,
    accepted: Accepted,
    /// The evidence.
    given: Instant,
}

impl ReleaseReceiver {
    /// For an engine whose evidence is what all of these issuers make.
    pub fn new(key: EngineKey, issuers: Vec<Box<dyn Issuer>>) -> Self {
        Self {
            key,
            issuers,
            owner: None,
            offers: VecDeque::new(),
            contexts: VecDeque::new(),
        }
    }

    /// The engine's id in logs and messages.
    pub fn engine_id(&self) -> String {
        self.key.public().engine_id()
    }

    /// Makes evidence for an owner. The first owner is the only one for the engine's life.
    pub fn attest(
        &mut self,
        protocol: u32,
        owner: OwnerPublicKey,
        challenge: &Challenge,
        application: &str,
    ) -> Result<Evidence, EvidenceError> {
        if protocol != PROTOCOL {
            return Err(EvidenceError::OtherProtocol {
                ours: PROTOCOL,
                theirs: protocol,
            });
        }
        if application.len() > MAX_APPLICATION {
            return Err(EvidenceError::ApplicationTooLong);
        }
        if *self.owner.get_or_insert(owner) != owner {
            return Err(EvidenceError::OtherOwner);
        }
        let engine_key = self.key.public();
        let reports = self.issuers.iter().map(|issuer| {
            let kind = issuer.kind();
            let bound = report_data(kind, &engine_key, &owner, challenge, application);
            Ok(Report {
                kind: kind.name().to_string(),
                bytes: issuer.report(&bound)?,
            })
        });
        let evidence = Evidence {
            protocol: PROTOCOL,
            engine_key,
            reports: reports.collect::<Result<_, EvidenceError>>()?,
            engine_version: VERSION.to_string(),
        };
        keep(
            &mut self.offers,
            Offer {
                info: info(&evidence.hash(), challenge.as_bytes(), application),
                given: Instant::now(),
            },
        );
        Ok(evidence)
    }

    /// Opens a release. In any order; each once.
    pub fn open(&mut self, release: &SealedRelease) -> Result<ReleasePayload, ReleaseError> {
        if let Some(context) = self
            .contexts
            .iter_mut()
            .find(|known| known.encapsulated == release.encapsulated)
        {
            return context.open(release);
        }
        let owner = self.owner.ok_or(ReleaseError::Unauthentic)?;
        for (position, offer) in self.offers.iter().enumerate().rev() {
            let mut context = Context::set_up(&self.key, &owner, &release.encapsulated, offer)?;
            match context.open(release) {
                Ok(payload) => {
                    self.offers.remove(position);
                    keep(&mut self.contexts, context);
                    return Ok(payload);
                }
                Err(ReleaseError::Unauthentic) => {}
                Err(error) => return Err(error),
            }
        }
        Err(ReleaseError::Unauthentic)
    }

    /// When the evidence was given to which these releases are the answer.
    pub fn attested_at(&self, encapsulated: &[u8; 32]) -> Option<Instant> {
        let context = self
            .contexts
            .iter()
            .find(|known| known.encapsulated == *encapsulated);
        context.map(|context| context.given)
    }
}

impl Context {
    fn set_up(
        key: &EngineKey,
        owner: &OwnerPublicKey,
        encapsulated: &[u8; 32],
        offer: &Offer,
    ) -> Result<Self, ReleaseError> {
        let bad = |_| ReleaseError::BadPublicKey;
        let mode = OpModeR::Auth(Public::from_bytes(owner.as_bytes()).map_err(bad)?);
        let enc = <Kem as hpke::Kem>::EncappedKey::from_bytes(encapsulated).map_err(bad)?;
        let private = key.0.private().map_err(bad)?;
        let hpke = hpke::setup_receiver(&mode, &private, &enc, &offer.info)
            .map_err(|_| ReleaseError::Unauthentic)?;
        Ok(Self {
            encapsulated: *encapsulated,
            hpke,
            accepted: Accepted::default(),
            given: offer.given,
        })
    }

    fn open(&mut self, release: &SealedRelease) -> Result<ReleasePayload, ReleaseError> {
        let sequence = release.sequence;
        if self.accepted.contains(sequence) {
            return Err(ReleaseError::Replayed(sequence));
        }
        let root = release_root(sequence, |context, out| self.hpke.export(context, out))?;
        let plain = open_blob(
            &root,
            BLOB_LABEL,
            &[&sequence.to_le_bytes()],
            &release.ciphertext,
        )
        .map_err(|_| ReleaseError::Unauthentic)?;
        let plain = Zeroizing::new(plain);
        let payload = ReleasePayload::decode(&plain).map_err(|_| ReleaseError::Malformed)?;
        self.accepted.insert(sequence);
        Ok(payload)
    }
}

/// Numbers accepted so far: all below `floor`, and those in `above`.
#[derive(Default)]
struct Accepted {
    floor: u64,
    above: BTreeSet<u64>,
}

impl Accepted {
    fn contains(&self, sequence: u64) -> bool {
        sequence < self.floor || self.above.contains(&sequence)
    }

    fn insert(&mut self, sequence: u64) {
        self.above.insert(sequence);
        while self.above.remove(&self.floor) {
            self.floor = self.floor.saturating_add(1);
        }
    }
}

/// Adds to a bounded queue, the oldest leaving first.
fn keep<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() >= KEPT {
        queue.pop_front();
    }
    queue.push_back(item);
}
