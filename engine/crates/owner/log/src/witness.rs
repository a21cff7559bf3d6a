//! A witness: it signs a log's state only if that goes on from the one that it signed before.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{
    Checkpoint, LogError,
    keeper::Tiles,
    note::{Note, PrivateKey, PublicKey},
};

/// The log's checkpoint as it was read, the same with the witness's signature below it, and the
/// state to remember, before the signature is shown to anybody. `before`:
/// the state that it signed last. Whether the tree goes on from there is computed from the log's
/// tiles, all of them.
pub fn cosign(
    tiles: &Tiles,
    log: &PublicKey,
    witness: &PrivateKey,
    before: Option<&Checkpoint>,
    now: SystemTime,
) -> Result<(String, String, Checkpoint), LogError> {
    let text = tiles.checkpoint()?;
    let note = Note::parse(&text)?;
    let found = Checkpoint::open(&note, log)?;
    let leaves = tiles.leaves(&found)?;
    if let Some(before) = before {
        if found.size < before.size {
            return Err(LogError::Rollback {
                found: found.size,
                before: before.size,
            });
        }
        let count = usize::try_from(before.size).unwrap_or(usize::MAX);
        let root = leaves.get(..count).map(crate::tree::root);
        if root != Some(before.root) || before.origin != found.origin {
            return Err(LogError::Inconsistent {
                from: before.size,
                to: found.size,
            });
        }
    }
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // One signature of this witness is enough: a log that does not grow is signed again and again.
    let others = note.without(witness.public().name());
    let signed = format!("{others}{}", witness.line(note.text(), seconds));
    Ok((text, signed, found))
}
