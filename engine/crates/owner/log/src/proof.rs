//! Proofs as files (C2SP tlog-proof): where an entry is, the path to the root, and the checkpoint.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use crate::{
    LogError, MOST_BYTES,
    tree::{Hash, MOST_STEPS},
};

const FIRST: &str = "c2sp.org/tlog-proof@v1";

/// A proof, read and not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Which entry of the log, from 0.
    pub index: u64,
    /// From the entry to the root, the lowest step first.
    pub path: Vec<Hash>,
    /// The checkpoint as a signed note.
    pub checkpoint: String,
}

impl Proof {
    /// Reads one.
    pub fn parse(bytes: &[u8]) -> Result<Self, LogError> {
        if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST_BYTES) {
            return Err(LogError::Proof("it is longer than any proof"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| LogError::Proof("it is no text"))?;
        let (head, checkpoint) = text
            .split_once("\n\n")
            .ok_or(LogError::Proof("it has no checkpoint"))?;
        let mut lines = head.lines();
        if lines.next() != Some(FIRST) {
            return Err(LogError::Proof("its first line is another format's"));
        }
        let mut line = lines.next();
        if line.is_some_and(|line| line.starts_with("extra ")) {
            line = lines.next();
        }
        let index = line
            .and_then(|line| line.strip_prefix("index "))
            .and_then(|text| text.parse::<u64>().ok().filter(|n| n.to_string() == text))
            .ok_or(LogError::Proof("it does not say which entry"))?;
        let path = lines
            .map(|line| {
                BASE64
                    .decode(line)
                    .ok()
                    .and_then(|hash| Hash::try_from(hash).ok())
                    .ok_or(LogError::Proof("a step of its path is no hash"))
            })
            .collect::<Result<Vec<Hash>, LogError>>()?;
        if path.len() > MOST_STEPS {
            return Err(LogError::Proof("its path is longer than any"));
        }
        Ok(Self {
            index,
            path,
            checkpoint: checkpoint.to_owned(),
        })
    }

    /// As a file.
    pub fn to_text(&self) -> String {
        let path: String = self
            .path
            .iter()
            .map(|hash| format!("{}\n", BASE64.encode(hash)))
            .collect();
        format!("{FIRST}\nindex {}\n{path}\n{}", self.index, self.checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_proof_is_read_as_it_was_written() {
        for path in [vec![], vec![[1; 32], [2; 32]]] {
            let proof = Proof {
                index: 12,
                path,
                checkpoint: "o\n3\nroot\n\n\u{2014} o AAAA\n".to_owned(),
            };
            assert_eq!(Proof::parse(proof.to_text().as_bytes()).unwrap(), proof);
            let extra = proof.to_text().replacen("index", "extra AAAA\nindex", 1);
            assert_eq!(Proof::parse(extra.as_bytes()).unwrap(), proof);
        }
    }

    #[test]
    fn what_is_no_proof_is_refused() {
        let long = format!(
            "{FIRST}\nindex 0\n{}\nx",
            format!("{}\n", BASE64.encode([0; 32])).repeat(65)
        );
        for bad in [
            "",
            "c2sp.org/tlog-proof@v2\nindex 0\n\nx",
            "c2sp.org/tlog-proof@v1\nindex 00\n\nx",
            "c2sp.org/tlog-proof@v1\nindex -1\n\nx",
            "c2sp.org/tlog-proof@v1\n\nx",
            "c2sp.org/tlog-proof@v1\nindex 0\nAAAA\n\nx",
            "c2sp.org/tlog-proof@v1\nindex 0\n",
            &long,
        ] {
            assert!(
                matches!(Proof::parse(bad.as_bytes()), Err(LogError::Proof(_))),
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Proof::parse(&bytes);
            let _ = crate::note::Note::parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
