//! What a log signs: how many entries its tree has, and the root (C2SP tlog-checkpoint).

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use crate::{
    LogError,
    note::{Note, PrivateKey, PublicKey},
    tree::Hash,
};

/// Bytes of a checkpoint with its signatures, or of a proof, at most.
pub const MOST_BYTES: u64 = 64 << 10;

/// The state of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's name, which is that of its key.
    pub origin: String,
    /// Entries.
    pub size: u64,
    /// The tree's root.
    pub root: Hash,
}

impl Checkpoint {
    /// Of a note that the log's key signed. Lines behind the third are the log's own business.
    pub fn open(note: &Note, log: &PublicKey) -> Result<Self, LogError> {
        let found = Self::read(note.text())?;
        if found.origin != log.name() {
            return Err(LogError::Origin {
                wanted: log.name().to_owned(),
                found: found.origin,
            });
        }
        match note.signed_by(log) {
            Some(_) => Ok(found),
            None => Err(LogError::NotSigned(log.name().to_owned())),
        }
    }

    /// The note, signed by the log.
    pub fn sign(&self, log: &PrivateKey) -> String {
        let text = self.text();
        let line = log.line(&text, 0);
        format!("{text}\n{line}")
    }

    fn text(&self) -> String {
        let root = BASE64.encode(self.root);
        format!("{}\n{}\n{root}\n", self.origin, self.size)
    }

    /// Of a text whose signatures nobody asks for: one's own notes.
    pub(crate) fn read(text: &str) -> Result<Self, LogError> {
        let mut lines = text.lines();
        let mut next = || lines.next().filter(|line| !line.is_empty());
        let (Some(origin), Some(size), Some(root)) = (next(), next(), next()) else {
            return Err(LogError::Checkpoint("it has not three lines"));
        };
        let count: u64 = size
            .parse()
            .map_err(|_| LogError::Checkpoint("its size is no number"))?;
        if count.to_string() != size {
            return Err(LogError::Checkpoint(
                "its size is not written as numbers are",
            ));
        }
        let root = BASE64
            .decode(root)
            .ok()
            .and_then(|root| Hash::try_from(root).ok())
            .ok_or(LogError::Checkpoint("its root is no hash"))?;
        Ok(Self {
            origin: origin.to_owned(),
            size: count,
            root,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::Signs;

    #[test]
    fn a_checkpoint_is_of_its_log() {
        let key = PrivateKey::generate("example.org/log", Signs::Notes).unwrap();
        let checkpoint = Checkpoint {
            origin: "example.org/log".to_owned(),
            size: 7,
            root: [3; 32],
        };
        let note = Note::parse(&checkpoint.sign(&key)).unwrap();
        assert_eq!(Checkpoint::open(&note, key.public()).unwrap(), checkpoint);
        let same_name = PrivateKey::generate("example.org/log", Signs::Notes).unwrap();
        assert!(matches!(
            Checkpoint::open(&note, same_name.public()),
            Err(LogError::NotSigned(_))
        ));
        let other = PrivateKey::generate("example.org/other", Signs::Notes).unwrap();
        assert!(matches!(
            Checkpoint::open(&note, other.public()),
            Err(LogError::Origin { .. })
        ));
    }

    #[test]
    fn what_is_no_checkpoint_is_refused() {
        let root = BASE64.encode([1; 32]);
        assert_eq!(
            Checkpoint::read(&format!("o\n3\n{root}\nmore\n"))
                .unwrap()
                .size,
            3
        );
        for bad in [
            "o\n".to_owned(),
            format!("o\n03\n{root}\n"),
            format!("o\n-3\n{root}\n"),
            format!("o\n99999999999999999999\n{root}\n"),
            "o\n3\nAAAA\n".to_owned(),
            format!("\n3\n{root}\n"),
        ] {
            assert!(
                matches!(Checkpoint::read(&bad), Err(LogError::Checkpoint(_))),
                "{bad}"
            );
        }
    }
}
