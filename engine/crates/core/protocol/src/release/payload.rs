//! What a release carries.
//!
//! ```text
//! version u8 (2) ‖ session 16 ‖ session key 32 ‖ lease seconds u32 LE ‖
//! age of the admission in milliseconds u64 LE ‖ age of the session in milliseconds u64 LE ‖
//! KEKs u32 LE ‖ for each, by name: id (length u32 LE, bytes) ‖ key 32
//! ```

use coffer_sealing::{
    Kek, KekSet, Secret, SessionId, SessionKey,
    fields::{Malformed, Reader, Writer},
};
use zeroize::Zeroizing;

const VERSION: u8 = 2;

/// The keys of one session, as one engine gets them.
#[derive(Clone)]
pub struct ReleasePayload {
    /// The session.
    pub session: SessionId,
    /// Its key.
    pub session_key: SessionKey,
    /// The KEKs of the columns it reads, and of their files' footers.
    pub keks: KekSet,
    /// How long an engine keeps the session without hearing of it, counted from when this was
    /// sealed.
    pub lease_seconds: u32,
    /// When this was sealed, by the client site's clock: so long after the engine's evidence was
    /// verified.
    pub engine_age_millis: u64,
    /// And so long after the session began.
    pub session_age_millis: u64,
}

impl ReleasePayload {
    /// As bytes, to be sealed.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::with_capacity(73 + self.keks.len() * 96);
        writer
            .raw(&[VERSION])
            .raw(self.session.as_bytes())
            .raw(self.session_key.expose())
            .u32(self.lease_seconds)
            .raw(&self.engine_age_millis.to_le_bytes())
            .raw(&self.session_age_millis.to_le_bytes());
        writer.u32(u32::try_from(self.keks.len()).unwrap_or(u32::MAX));
        for kek in self.keks.iter() {
            writer
                .string(kek.id().to_string().as_bytes())
                .raw(kek.expose());
        }
        writer.finish()
    }

    /// From bytes that were opened.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.array()? != [VERSION] {
            return Err(Malformed);
        }
        let session = SessionId(reader.array()?);
        let session_key = SessionKey::from_secret(secret(&mut reader)?);
        let lease_seconds = reader.u32()?;
        let engine_age_millis = u64::from_le_bytes(reader.array()?);
        let session_age_millis = u64::from_le_bytes(reader.array()?);
        let mut keks = KekSet::new();
        for _ in 0..reader.u32()? {
            let id = reader.text()?.parse().map_err(|_| Malformed)?;
            if keks.contains(&id) {
                return Err(Malformed);
            }
            keks.insert(Kek::new(id, secret(&mut reader)?));
        }
        reader.end()?;
        Ok(Self {
            session,
            session_key,
            keks,
            lease_seconds,
            engine_age_millis,
            session_age_millis,
        })
    }
}

fn secret(reader: &mut Reader<'_>) -> Result<Secret<32>, Malformed> {
    Secret::from_slice(reader.raw(32)?).map_err(|_| Malformed)
}
