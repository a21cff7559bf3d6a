//! Signed notes (C2SP signed-note): a text, and lines of signatures below it.
//!
//! ```text
//! text, which ends with an end of line
//!
//! — NAME BASE64(key id, 4 bytes ‖ signature)
//! ```

use std::{fmt, str::FromStr};

use aws_lc_rs::{
    rand::{SecureRandom, SystemRandom},
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use coffer_sealing::sha256;

use crate::LogError;

/// The beginning of a line with a signature.
const DASH: &str = "\u{2014} ";
const PRIVATE: &str = "PRIVATE+KEY+";
/// Signatures of a note at most.
const MOST_SIGNATURES: usize = 256;

/// What a key signs, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signs {
    /// Notes: a log's key (signature type 1, Ed25519).
    Notes,
    /// Checkpoints, with the time (signature type 4, C2SP tlog-cosignature): a witness's key.
    Cosignatures,
}

impl Signs {
    fn byte(self) -> u8 {
        match self {
            Self::Notes => 1,
            Self::Cosignatures => 4,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Notes),
            4 => Some(Self::Cosignatures),
            _ => None,
        }
    }
}

/// A public key with its name, as `NAME+KEYID+BASE64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    name: String,
    signs: Signs,
    key: [u8; 32],
}

impl PublicKey {
    /// Whose it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it signs.
    pub fn signs(&self) -> Signs {
        self.signs
    }

    /// Whether the other is this very key, whatever it is called.
    pub(crate) fn is_key_of(&self, other: &Self) -> bool {
        self.key == other.key
    }

    fn id(&self) -> [u8; 4] {
        let mut bytes = format!("{}\n", self.name).into_bytes();
        bytes.push(self.signs.byte());
        bytes.extend(self.key);
        let [a, b, c, d, ..] = sha256(&bytes);
        [a, b, c, d]
    }

    /// Whether it made the signature of a message.
    fn made(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.key)
            .verify(message, signature)
            .is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![self.signs.byte()];
        bytes.extend(self.key);
        write!(
            f,
            "{}+{}+{}",
            self.name,
            hex::encode(self.id()),
            BASE64.encode(bytes)
        )
    }
}

impl FromStr for PublicKey {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        let (name, signs, key) = parts(text)?;
        let found = Self { name, signs, key };
        match found.to_string() == text {
            true => Ok(found),
            false => Err(LogError::Key("its name and its id do not go together")),
        }
    }
}

/// A private key: `PRIVATE+KEY+NAME+KEYID+BASE64`, in a file that only its owner may read.
pub struct PrivateKey {
    public: PublicKey,
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl PrivateKey {
    /// A new one. A name has no blanks and no `+` in it.
    pub fn generate(name: &str, signs: Signs) -> Result<Self, LogError> {
        let mut seed = [0; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| LogError::Crypto)?;
        check_name(name)?;
        Self::of(name.to_owned(), signs, seed)
    }

    fn of(name: String, signs: Signs, seed: [u8; 32]) -> Result<Self, LogError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| LogError::Crypto)?;
        let mut key = [0; 32];
        if pair.public_key().as_ref().len() != key.len() {
            return Err(LogError::Crypto);
        }
        key.copy_from_slice(pair.public_key().as_ref());
        let public = PublicKey { name, signs, key };
        Ok(Self { public, seed, pair })
    }

    /// The public key that goes with it.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, LogError> {
        let text = text.trim_end();
        let rest = text
            .strip_prefix(PRIVATE)
            .ok_or(LogError::Key("it is no private key"))?;
        let (name, signs, seed) = parts(rest)?;
        let found = Self::of(name, signs, seed)?;
        match found.to_text().trim_end() == text {
            true => Ok(found),
            false => Err(LogError::Key("its name and its id do not go together")),
        }
    }

    /// As a file has it.
    pub fn to_text(&self) -> String {
        let mut bytes = vec![self.public.signs.byte()];
        bytes.extend(self.seed);
        format!(
            "{PRIVATE}{}+{}+{}\n",
            self.public.name,
            hex::encode(self.public.id()),
            BASE64.encode(bytes)
        )
    }

    /// The line of a note's text, which ends with an end of line. `seconds`: since 1970, of a
    /// cosignature.
    pub(crate) fn line(&self, text: &str, seconds: u64) -> String {
        let mut bytes = self.public.id().to_vec();
        match self.public.signs {
            Signs::Notes => bytes.extend(self.pair.sign(text.as_bytes()).as_ref()),
            Signs::Cosignatures => {
                bytes.extend(seconds.to_be_bytes());
                bytes.extend(self.pair.sign(cosigned(text, seconds).as_bytes()).as_ref());
            }
        }
        format!("{DASH}{} {}\n", self.public.name, BASE64.encode(bytes))
    }
}

/// What a witness signs.
fn cosigned(text: &str, seconds: u64) -> String {
    format!("cosignature/v1\ntime {seconds}\n{text}")
}

fn check_name(name: &str) -> Result<(), LogError> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '+';
    match name.is_empty() || name.chars().any(odd) {
        true => Err(LogError::Key("a name has no blanks and no + in it")),
        false => Ok(()),
    }
}

fn parts(text: &str) -> Result<(String, Signs, [u8; 32]), LogError> {
    let mut parts = text.splitn(3, '+');
    let (Some(name), Some(_), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(LogError::Key("it has not three parts"));
    };
    check_name(name)?;
    let bytes = BASE64
        .decode(key)
        .map_err(|_| LogError::Key("its last part is no Base64"))?;
    let (signs, key) = bytes
        .split_first()
        .ok_or(LogError::Key("its last part is empty"))?;
    let signs = Signs::of(*signs).ok_or(LogError::Key("it is of a type that is not known"))?;
    let key = <[u8; 32]>::try_from(key).map_err(|_| LogError::Key("it has not 32 bytes"))?;
    Ok((name.to_owned(), signs, key))
}

/// A note, read and not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    text: String,
    signatures: Vec<(String, Vec<u8>)>,
}

impl Note {
    /// Reads one.
    pub fn parse(note: &str) -> Result<Self, LogError> {
        let (text, below) = note
            .rsplit_once("\n\n")
            .ok_or(LogError::Note("it has no signatures"))?;
        if text.is_empty() || text.contains(|c: char| c.is_control() && c != '\n') {
            return Err(LogError::Note("its text is empty, or no plain text"));
        }
        let below = below
            .strip_suffix('\n')
            .ok_or(LogError::Note("its last line has no end"))?;
        let mut signatures = Vec::new();
        for line in below.split('\n') {
            let (name, signature) = line
                .strip_prefix(DASH)
                .and_then(|line| line.split_once(' '))
                .ok_or(LogError::Note("a line below is no signature"))?;
            let bytes = BASE64
                .decode(signature)
                .map_err(|_| LogError::Note("a signature is no Base64"))?;
            signatures.push((name.to_owned(), bytes));
        }
        if signatures.len() > MOST_SIGNATURES {
            return Err(LogError::Note("it has too many signatures"));
        }
        Ok(Self {
            text: format!("{text}\n"),
            signatures,
        })
    }

    /// What is signed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The note without the signatures of that name.
    pub(crate) fn without(&self, name: &str) -> String {
        let others = self.signatures.iter().filter(|(of, _)| of != name);
        let lines = others.map(|(of, bytes)| format!("{DASH}{of} {}\n", BASE64.encode(bytes)));
        format!("{}\n{}", self.text, lines.collect::<String>())
    }

    /// When the key signed it, in seconds since 1970 (0 for a log's key, which does not say); none
    /// if it did not. Of several signatures the newest counts.
    pub fn signed_by(&self, key: &PublicKey) -> Option<u64> {
        let id = key.id();
        let of_key = self.signatures.iter().filter_map(|(name, bytes)| {
            (*name == key.name)
                .then(|| bytes.strip_prefix(id.as_slice()))
                .flatten()
        });
        of_key
            .filter_map(|signature| match key.signs {
                Signs::Notes => key.made(self.text.as_bytes(), signature).then_some(0),
                Signs::Cosignatures => {
                    let (time, signature) = signature.split_first_chunk::<8>()?;
                    let seconds = u64::from_be_bytes(*time);
                    key.made(cosigned(&self.text, seconds).as_bytes(), signature)
                        .then_some(seconds)
                }
            })
            .max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Go's `golang.org/x/mod/sumdb/note`, which the format comes from.
    const KEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    const NOTE: &str = "If you think cryptography is the answer to your problem,\n\
        then you don't know what your problem is.\n\n\
        \u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKv\
        qfqdngotpRZb6KE6RyyBwJnAM=\n";

    #[test]
    fn the_example_is_read_and_checked() {
        let key: PublicKey = KEY.parse().unwrap();
        assert_eq!(
            (key.name(), key.to_string().as_str()),
            ("PeterNeumann", KEY)
        );
        let note = Note::parse(NOTE).unwrap();
        assert_eq!(note.signed_by(&key), Some(0));
        let other = PrivateKey::generate("PeterNeumann", Signs::Notes).unwrap();
        assert_eq!(note.signed_by(other.public()), None);
        let changed = Note::parse(&NOTE.replacen("answer", "Answer", 1)).unwrap();
        assert_eq!(changed.signed_by(&key), None);
    }

    #[test]
    fn what_is_signed_is_of_that_key_text_and_time() {
        let log = PrivateKey::generate("example.org/log", Signs::Notes).unwrap();
        let witness = PrivateKey::generate("example.org/w", Signs::Cosignatures).unwrap();
        let text = "example.org/log\n3\nAAAA\n";
        let note = format!("{text}\n{}{}", log.line(text, 9), witness.line(text, 1234));
        let read = Note::parse(&note).unwrap();
        assert_eq!(read.text(), text);
        assert_eq!(read.signed_by(log.public()), Some(0));
        assert_eq!(read.signed_by(witness.public()), Some(1234));
        // A witness's key does not sign as a log's, nor the other way round, whatever it is called.
        for (key, signs) in [(&log, Signs::Cosignatures), (&witness, Signs::Notes)] {
            let as_other = PrivateKey::of(key.public.name.clone(), signs, key.seed).unwrap();
            assert_eq!(read.signed_by(as_other.public()), None);
        }
        // Another time than was signed.
        let bytes = &read.signatures[1].1;
        let mut moved = bytes.clone();
        moved[11] ^= 1;
        let forged = Note {
            signatures: vec![("example.org/w".to_owned(), moved)],
            ..read.clone()
        };
        assert_eq!(forged.signed_by(witness.public()), None);
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        let key = PrivateKey::generate("a.example/log", Signs::Cosignatures).unwrap();
        let again = PrivateKey::parse(&key.to_text()).unwrap();
        assert_eq!(again.public(), key.public());
        assert_eq!(
            key.public().to_string().parse::<PublicKey>().unwrap(),
            *key.public()
        );
        let renamed = key
            .public()
            .to_string()
            .replacen("a.example", "b.example", 1);
        renamed.parse::<PublicKey>().unwrap_err();
        for bad in [
            "",
            "a",
            "a+b",
            "a+00000000+!!",
            "a+00000000+",
            "a b+00000000+AAAA",
        ] {
            bad.parse::<PublicKey>().unwrap_err();
        }
        assert!(PrivateKey::generate("a b", Signs::Notes).is_err());
        assert!(PrivateKey::parse(&key.public().to_string()).is_err());
    }

    #[test]
    fn what_is_no_note_is_refused() {
        for bad in [
            "",
            "text\n",
            "text\n\n",
            "text\n\n\u{2014} a",
            "text\n\n\u{2014} a AAAA",
            "text\n\n- a AAAA\n",
            "text\n\n\u{2014} a !!!!\n",
            "te\u{7}xt\n\n\u{2014} a AAAA\n",
            "\n\n\u{2014} a AAAA\n",
        ] {
            Note::parse(bad).unwrap_err();
        }
        let many = format!("text\n\n{}", "\u{2014} a AAAA\n".repeat(300));
        Note::parse(&many).unwrap_err();
    }
}
