//! The engine's identity on the wire: evidence out, releases in. The rules are those of
//! [`coffer_protocol::release`].

use std::time::Instant;

use coffer_protocol::{
    Challenge, EvidenceError, OwnerPublicKey, ReleaseError, ReleasePayload, SealedRelease,
    wire::{Attest, EngineEvidence, Release},
};
use coffer_release::{EngineKey, Issuer, ReleaseReceiver};
use parking_lot::Mutex;
use thiserror::Error;

/// Why evidence is not given, or a release not taken.
#[derive(Debug, Error)]
pub enum AttestError {
    /// The owner's key is not 32 bytes.
    #[error("the owner's key is malformed")]
    OwnerKey,
    /// The release's encapsulated key is not 32 bytes.
    #[error("the release is malformed")]
    Release,
    /// No evidence, and why.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The release does not open, and why.
    #[error(transparent)]
    Opening(#[from] ReleaseError),
    /// The random source failed.
    #[error(transparent)]
    Key(#[from] coffer_sealing::Error),
}

impl AttestError {
    /// The stable word for REFUSED.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OwnerKey => "malformed_owner_key",
            Self::Release | Self::Opening(_) => "release",
            Self::Evidence(error) => error.code(),
            Self::Key(error) => error.code(),
        }
    }
}

/// An engine's key pair, and what was attested and released with it.
pub(crate) struct Identity {
    receiver: Mutex<ReleaseReceiver>,
}

impl Identity {
    /// A fresh key pair, for which all of these issuers vouch.
    pub(crate) fn generate(issuers: Vec<Box<dyn Issuer>>) -> Result<Self, AttestError> {
        let receiver = ReleaseReceiver::new(EngineKey::generate()?, issuers);
        Ok(Self {
            receiver: Mutex::new(receiver),
        })
    }

    pub(crate) fn engine_id(&self) -> String {
        self.receiver.lock().engine_id()
    }

    pub(crate) fn attest(&self, attest: &Attest) -> Result<EngineEvidence, AttestError> {
        let owner = <[u8; 32]>::try_from(attest.owner_key.as_ref())
            .map(OwnerPublicKey)
            .map_err(|_| AttestError::OwnerKey)?;
        let challenge = Challenge::from_slice(&attest.challenge)?;
        let mut receiver = self.receiver.lock();
        let evidence = receiver.attest(attest.protocol, owner, &challenge, &attest.application)?;
        Ok(evidence.to_wire())
    }

    /// Opens a release, and says when the evidence was given on the strength of which it was made;
    /// `None` if this very release was taken before.
    pub(crate) fn open_release(
        &self,
        release: &Release,
    ) -> Result<Option<(ReleasePayload, Instant)>, AttestError> {
        let sealed = SealedRelease {
            encapsulated: <[u8; 32]>::try_from(release.encapsulated.as_ref())
                .map_err(|_| AttestError::Release)?,
            sequence: release.sequence,
            ciphertext: release.ciphertext.to_vec(),
        };
        let mut receiver = self.receiver.lock();
        match receiver.open(&sealed) {
            Ok(payload) => {
                let attested = receiver.attested_at(&sealed.encapsulated);
                Ok(Some((payload, attested.ok_or(ReleaseError::Unauthentic)?)))
            }
            Err(ReleaseError::Replayed(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
