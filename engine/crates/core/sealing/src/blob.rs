//! Sealed blobs: one piece of plaintext under a key of its own, derived from a root, a label, an
//! identity and a random id.
//!
//! ```text
//! 0  magic "CFM1"   4  message id, 16 bytes   20  ciphertext ‖ tag
//! ```
//! The key is used once, so the nonce is 0. Magic and id are associated data.

use crate::{
    DerivationKey, Error, MessageId,
    aead::{Key, TAG_LEN},
    bytes::field,
    frame::MAX_FRAME_LEN,
};

const MAGIC: [u8; 4] = *b"CFM1";
const HEADER_LEN: usize = 20;
/// Bytes that a blob is longer than its plaintext.
pub const OVERHEAD: usize = HEADER_LEN + TAG_LEN;

/// Seals `plain` for the place that `label` and `parts` name.
pub fn seal_blob(
    root: &DerivationKey,
    label: &str,
    parts: &[&[u8]],
    plain: &[u8],
) -> Result<Vec<u8>, Error> {
    let mut blob = Vec::new();
    append_blob(root, label, parts, plain, &mut blob)?;
    Ok(blob)
}

pub(crate) fn append_blob(
    root: &DerivationKey,
    label: &str,
    parts: &[&[u8]],
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    append_with_id(root, label, parts, MessageId::draw()?, plain, out)
}

/// The id is drawn above, always; only the making of test vectors gives one.
pub(crate) fn append_with_id(
    root: &DerivationKey,
    label: &str,
    parts: &[&[u8]],
    id: MessageId,
    plain: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let length = plain.len().saturating_add(OVERHEAD);
    if length > MAX_FRAME_LEN {
        return Err(Error::TooLong { length });
    }
    let mut header = [0; HEADER_LEN];
    for (to, from) in header
        .iter_mut()
        .zip(MAGIC.into_iter().chain(*id.as_bytes()))
    {
        *to = from;
    }
    out.reserve(length);
    out.extend_from_slice(&header);
    let start = out.len();
    out.extend_from_slice(plain);
    let key = key(root, label, parts, id)?;
    let tag = key.seal(0, &header, out.get_mut(start..).unwrap_or_default())?;
    out.extend_from_slice(tag.as_ref());
    Ok(())
}

/// Opens a blob that must have been sealed for this place.
pub fn open_blob(
    root: &DerivationKey,
    label: &str,
    parts: &[&[u8]],
    blob: &[u8],
) -> Result<Vec<u8>, Error> {
    let (need, got) = (OVERHEAD, blob.len());
    if got < need {
        return Err(Error::Truncated { need, got });
    }
    if got > MAX_FRAME_LEN {
        return Err(Error::BadLength(u64::try_from(got).unwrap_or(u64::MAX)));
    }
    let header: [u8; HEADER_LEN] = field(blob, 0)?;
    if field::<4>(&header, 0)? != MAGIC {
        return Err(Error::BadMagic);
    }
    let id = MessageId(field(&header, 4)?);
    let mut plain = blob.get(HEADER_LEN..).unwrap_or_default().to_vec();
    key(root, label, parts, id)?.open(0, &header, &mut plain)?;
    plain.truncate(got.saturating_sub(OVERHEAD));
    Ok(plain)
}

fn key(root: &DerivationKey, label: &str, parts: &[&[u8]], id: MessageId) -> Result<Key, Error> {
    let mut identity = Vec::with_capacity(parts.len().saturating_add(1));
    identity.extend_from_slice(parts);
    identity.push(id.as_bytes());
    Key::new(&root.derive(label, &identity)?)
}
