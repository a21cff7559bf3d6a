//! The owner's side: the client engine.

use coffer_sealing::seal_blob;
use hpke::{Deserializable, OpModeS, Serializable, aead::AeadCtxS};

use coffer_protocol::release::{
    Aead, BLOB_LABEL, Kdf, Kem, MAX_APPLICATION, Public, ReleaseError, ReleasePayload,
    SealedRelease, info, release_root,
};

use crate::{AttestedEngine, OwnerKey};

/// Releases keys to one engine, for one application. Counts its releases itself.
pub struct ReleaseSender {
    context: AeadCtxS<Aead, Kdf, Kem>,
    encapsulated: [u8; 32],
    next: u64,
}

impl ReleaseSender {
    /// Opens the context. `owner` must be the owner that the evidence was checked for.
    pub fn new(
        engine: &AttestedEngine,
        owner: &OwnerKey,
        application: &str,
    ) -> Result<Self, ReleaseError> {
        if *engine.owner() != owner.public() {
            return Err(ReleaseError::OtherOwner);
        }
        if application.len() > MAX_APPLICATION {
            return Err(ReleaseError::ApplicationTooLong);
        }
        let bad = |_| ReleaseError::BadPublicKey;
        let recipient = Public::from_bytes(&engine.key().0).map_err(bad)?;
        let pair = owner.pair();
        let mode = OpModeS::Auth((
            pair.private().map_err(bad)?,
            Public::from_bytes(&pair.public).map_err(bad)?,
        ));
        let info = info(
            engine.evidence_hash(),
            engine.challenge().as_bytes(),
            application,
        );
        let (encapsulated, context) = hpke::setup_sender(&mode, &recipient, &info).map_err(bad)?;
        Ok(Self {
            context,
            encapsulated: encapsulated.to_bytes().into(),
            next: 0,
        })
    }

    /// Seals the next release.
    pub fn release(&mut self, payload: &ReleasePayload) -> Result<SealedRelease, ReleaseError> {
        let sequence = self.next;
        self.next = sequence
            .checked_add(1)
            .ok_or(coffer_sealing::Error::TooManyFrames)?;
        let root = release_root(sequence, |context, out| self.context.export(context, out))?;
        let ciphertext = seal_blob(
            &root,
            BLOB_LABEL,
            &[&sequence.to_le_bytes()],
            &payload.encode(),
        )?;
        Ok(SealedRelease {
            encapsulated: self.encapsulated,
            sequence,
            ciphertext,
        })
    }
}

#[cfg(test)]
mod tests;
