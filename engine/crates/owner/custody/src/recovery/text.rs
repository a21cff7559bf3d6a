//! A share as text: to be printed, and typed in again. Each line has a check of its own, so that a
//! slip is found where it was made.
//!
//! ```text
//! Coffer key share 2 of 5: any 3 of them give the keyring back.
//! Set 0123…
//!
//!   1  <40 characters of base64>  <4 hex digits>
//!   …
//! Checksum <16 hex digits>
//! ```
//! Only the numbered lines and the checksum are read; blanks do not matter.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use zeroize::Zeroizing;

use crate::recovery::{RecoveryError, Share, sha256};

const LINE: usize = 40;
const MAX_TEXT: usize = 4 << 20;

impl Share {
    /// The text. Whoever has enough such texts has the keyring.
    pub fn to_text(&self) -> Zeroizing<String> {
        let bytes = self.to_bytes();
        let encoded = Zeroizing::new(BASE64.encode(bytes.as_slice()));
        let mut text = Zeroizing::new(String::with_capacity(
            encoded.len().saturating_mul(2).saturating_add(512),
        ));
        text.push_str(&format!(
            "Coffer key share {} of {}: any {} of them give the keyring back, without its \
                passphrase.\n\
             Set {}. Keep it secret, and apart from the others.\n\n",
            self.number(),
            self.scheme().count(),
            self.scheme().threshold(),
            self.set(),
        ));
        let characters: Vec<char> = encoded.chars().collect();
        for (at, line) in characters.chunks(LINE).enumerate() {
            let number = at.saturating_add(1);
            let line = Zeroizing::new(line.iter().collect::<String>());
            text.push_str(&format!(
                "{number:>4}  {:<LINE$}  {}\n",
                line.as_str(),
                line_check(number, &line)
            ));
        }
        text.push_str(&format!("Checksum {}\n", checksum(&bytes)));
        text
    }

    /// Reads the text.
    pub fn from_text(text: &str) -> Result<Self, RecoveryError> {
        if text.len() > MAX_TEXT {
            return Err(RecoveryError::Malformed("it is too long"));
        }
        let mut encoded = Zeroizing::new(String::with_capacity(text.len()));
        let mut lines = 0_usize;
        let mut sum = None;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["Checksum", found] => sum = Some(*found),
                [number, middle @ .., check]
                    if number.bytes().all(|byte| byte.is_ascii_digit()) =>
                {
                    lines = lines.saturating_add(1);
                    let body = Zeroizing::new(middle.concat());
                    if number.parse() != Ok(lines) {
                        return Err(RecoveryError::LineMissing(lines));
                    }
                    if !check.eq_ignore_ascii_case(&line_check(lines, &body)) {
                        return Err(RecoveryError::Line(lines));
                    }
                    encoded.push_str(&body);
                }
                _ => (),
            }
        }
        if lines == 0 {
            return Err(RecoveryError::Malformed("it has no numbered line"));
        }
        let bytes = BASE64
            .decode(encoded.as_bytes())
            .map_err(|_| RecoveryError::Malformed("its lines do not go together"))?;
        let bytes = Zeroizing::new(bytes);
        match sum {
            None => Err(RecoveryError::Malformed(
                "its last line, the checksum, is missing",
            )),
            Some(sum) if !sum.eq_ignore_ascii_case(&checksum(&bytes)) => {
                Err(RecoveryError::Checksum)
            }
            Some(_) => Self::from_bytes(&bytes),
        }
    }
}

fn line_check(number: usize, line: &str) -> String {
    let number = u64::try_from(number).unwrap_or(u64::MAX).to_le_bytes();
    hex::encode(
        sha256(&[b"coffer share line", &number, line.as_bytes()])
            .get(..2)
            .unwrap_or_default(),
    )
}

fn checksum(bytes: &[u8]) -> String {
    hex::encode(
        sha256(&[b"coffer share", bytes])
            .get(..8)
            .unwrap_or_default(),
    )
}
