//! Settings that Spark hands to its executors hold no secret of Coffer's, under whatever name.
//!
//! The driver's JVM sends what it is about to hand out, and is told the name of the setting that
//! must go: the comparison is made here, so that no secret has to be in the JVM for it. Here too a
//! secret is kept as a keyed hash and a length: each stretch of a value that is so long is hashed
//! and compared. Values are looked at as they are and as what they decode to, twice over:
//! percent-encoding, base64 in any alignment, hexadecimal, and backslashes.
//!
//! What it does not find: a secret that was cut in pieces, compressed or encrypted. Drivers of
//! other accounts (a key service) are not answered: their owner's secrets are not in them, and the
//! question would be a way to try passphrases.

use std::collections::HashSet;

use aws_lc_rs::hmac;
use coffer_custody::Policy;
use coffer_protocol::wire::{CheckSettings, Setting, SettingsChecked};
use coffer_sealing::Secret;
use zeroize::Zeroizing;

use crate::ClientError;

/// A secret that is shorter is found as a word of its own, not inside of another: a PIN of four
/// digits is in many numbers.
const LONG: usize = 8;
/// How often what a value decodes to is decoded again.
const DEPTH: usize = 2;
/// Bytes of a value's decodings at most; of a longer value, only itself is looked at.
const DECODED: usize = 1 << 20;
/// The base of a hash that rolls over a value; what it finds is hashed in earnest.
const BASE: u64 = 1_099_511_628_211;

/// Secrets, as what they are recognised by.
pub(crate) struct Known {
    key: hmac::Key,
    prints: Vec<Print>,
}

struct Print {
    what: String,
    length: usize,
    rolled: u64,
    mac: hmac::Tag,
}

impl Known {
    pub(crate) fn none() -> Result<Self, ClientError> {
        let key = Secret::<32>::generate()?;
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key.expose()),
            prints: Vec::new(),
        })
    }

    /// Remembers a secret; `what` says which, in errors.
    pub(crate) fn note(&mut self, what: impl Into<String>, secret: &[u8]) {
        if secret.is_empty() {
            return;
        }
        self.prints.push(Print {
            what: what.into(),
            length: secret.len(),
            rolled: rolled(secret),
            mac: hmac::sign(&self.key, secret),
        });
    }

    /// Which secret a setting holds.
    fn found(&self, key: &str, value: &str) -> Option<&str> {
        let mut views = vec![Zeroizing::new(value.as_bytes().to_vec())];
        let (mut from, mut seen) = (0, HashSet::new());
        for depth in 0..=DEPTH {
            let to = views.len();
            for at in from..to {
                let view = views
                    .get(at)
                    .map(|view| view.to_vec())
                    .map(Zeroizing::new)?;
                if let Some(print) = self
                    .prints
                    .iter()
                    .find(|print| self.is_in(print, key, &view, depth > 0))
                {
                    return Some(&print.what);
                }
                if depth < DEPTH && view.len() <= DECODED {
                    let new = decoded(&view)
                        .into_iter()
                        .filter(|new| seen.insert(rolled(new)));
                    views.extend(new);
                }
            }
            from = to;
        }
        None
    }

    fn is_in(&self, print: &Print, key: &str, view: &[u8], decoded: bool) -> bool {
        let length = print.length;
        let Some(first) = view.get(..length) else {
            return false;
        };
        let out = (1..length).fold(BASE, |power, _| power.wrapping_mul(BASE));
        let mut hash = rolled(first);
        for at in 0..=view.len().saturating_sub(length) {
            if at > 0 {
                let (gone, new) = (view.get(at - 1), view.get(at + length - 1));
                let (gone, new) = (
                    u64::from(*gone.unwrap_or(&0)),
                    u64::from(*new.unwrap_or(&0)),
                );
                hash = hash
                    .wrapping_sub(gone.wrapping_mul(out))
                    .wrapping_add(new)
                    .wrapping_mul(BASE);
            }
            if hash == print.rolled
                && self.is(print, view.get(at..at + length).unwrap_or_default())
                && (length >= LONG || is_word(key, view, at, length, decoded))
            {
                return true;
            }
        }
        false
    }

    fn is(&self, print: &Print, bytes: &[u8]) -> bool {
        hmac::verify(&self.key, bytes, print.mac.as_ref()).is_ok()
    }
}

/// A sum over the bytes from which the first can be taken and to which one can be added.
fn rolled(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |hash: u64, byte| {
        hash.wrapping_add(u64::from(*byte)).wrapping_mul(BASE)
    })
}

/// Whether a short secret stands by itself. A setting that is a number and nothing else may be that
/// number by chance, unless its name says that it is none; one that somebody encoded is none by
/// chance.
fn is_word(key: &str, view: &[u8], at: usize, length: usize, decoded: bool) -> bool {
    let is_part = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
    };
    let alone = !is_part(at.checked_sub(1).and_then(|before| view.get(before)))
        && !is_part(view.get(at + length));
    let number = !decoded && view.iter().all(u8::is_ascii_digit);
    let key = key.to_lowercase();
    let secret = ["pin", "pass", "pwd", "secret", "token", "credential", "key"];
    alone && (!number || secret.iter().any(|word| key.contains(word)))
}

/// What a value may be the writing of.
fn decoded(view: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let mut all = vec![percent(view, false), percent(view, true), backslashes(view)];
    for run in runs(view, |byte| sextet(byte).is_some()) {
        all.extend((0..4).map(|skip| base64(run.get(skip..).unwrap_or_default())));
    }
    for run in runs(view, |byte| byte.is_ascii_hexdigit()) {
        for skip in 0..2 {
            let rest = run.get(skip..).unwrap_or_default();
            let bytes = hex::decode(rest.get(..rest.len() & !1).unwrap_or_default());
            all.extend(bytes.ok().map(Zeroizing::new));
        }
    }
    all.retain(|bytes| !bytes.is_empty() && bytes.as_slice() != view);
    all
}

/// Six bits in base64, or in base64 for URLs.
fn sextet(letter: u8) -> Option<u32> {
    Some(u32::from(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    }))
}

/// Whole bytes; bits that are left over are none.
fn base64(run: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(run.len()));
    for four in run.chunks(4) {
        let bits = four.iter().filter_map(|letter| sextet(*letter));
        let bits = bits.fold(0, |bits, six| bits << 6 | six) << (6 * (4 - four.len()));
        out.extend(bits.to_be_bytes().get(1..four.len()).unwrap_or_default());
    }
    out
}

/// Stretches of such bytes that are long enough to hold anything.
fn runs(view: &[u8], is: impl Fn(u8) -> bool) -> Vec<&[u8]> {
    let all = view.split(|byte| !is(*byte));
    all.filter(|run| run.len() >= 4).collect()
}

fn percent(view: &[u8], plus: bool) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(view.len()));
    let mut rest = view;
    while let Some((byte, after)) = rest.split_first() {
        let mut one = [0];
        match (byte, after.split_at_checked(2)) {
            (b'%', Some((digits, behind))) if hex::decode_to_slice(digits, &mut one).is_ok() => {
                out.extend(one);
                rest = behind;
            }
            (b'+', _) if plus => {
                out.push(b' ');
                rest = after;
            }
            _ => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

/// Backslashes of JSON, Java and shells: `\uXXXX`, `\xXX`, and any other byte as itself.
fn backslashes(view: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(Vec::with_capacity(view.len()));
    let mut rest = view;
    let digits = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    while let Some((byte, after)) = rest.split_first() {
        let escaped = (*byte == b'\\').then(|| after.split_first()).flatten();
        let (letter, behind) = match escaped {
            Some((letter, behind)) => (*letter, behind),
            None => {
                out.push(*byte);
                rest = after;
                continue;
            }
        };
        let count = match letter {
            b'u' => 4,
            b'x' => 2,
            _ => 0,
        };
        let code = behind.split_at_checked(count).filter(|_| count > 0);
        match code.and_then(|(code, behind)| Some((char::from_u32(digits(code)?)?, behind))) {
            Some((letter, behind)) => {
                out.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
                rest = behind;
            }
            None => {
                out.push(letter);
                rest = behind;
            }
        }
    }
    out
}

impl Known {
    /// Remembers the secrets of the masters that a policy names; those that cannot be had now
    /// cannot be used either.
    pub(crate) fn note_masters(&mut self, policy: &Policy) {
        for (what, secret) in coffer_kms::secrets(policy) {
            self.note(what, secret.as_bytes());
        }
    }

    /// Errors when one of the settings holds a secret of Coffer's.
    pub(crate) fn check(&self, request: &CheckSettings) -> Result<SettingsChecked, ClientError> {
        for Setting { key, value } in &request.settings {
            // A secret may be a name, too.
            let found = self.found(key, value).or_else(|| self.found("", key));
            if let Some(what) = found {
                return Err(ClientError::SecretInSettings {
                    key: match self.found("", key) {
                        Some(_) => "a setting".to_owned(),
                        None => key.chars().filter(|c| !c.is_control()).take(200).collect(),
                    },
                    what: what.to_owned(),
                });
            }
        }
        Ok(SettingsChecked {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "correct horse+battery/s\"täple";

    fn known() -> Known {
        let mut known = Known::none().unwrap();
        known.note("the passphrase", SECRET.as_bytes());
        known.note("a PIN", b"4711");
        known
    }

    fn percent_encoded(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02x}")).collect()
    }

    #[test]
    fn a_secret_is_found_however_it_is_written() {
        let known = known();
        let json = SECRET.replace('"', "\\\"").replace('ä', "\\u00e4");
        for (case, value) in [
            ("as it is", SECRET.to_owned()),
            ("inside", format!("-Dx={SECRET} -Dy=1")),
            // By another program: printf '%s' … | base64
            (
                "base64",
                "Y29ycmVjdCBob3JzZStiYXR0ZXJ5L3MidMOkcGxl".to_owned(),
            ),
            (
                "base64 of u:…",
                "dTpjb3JyZWN0IGhvcnNlK2JhdHRlcnkvcyJ0w6RwbGU=".to_owned(),
            ),
            (
                "base64 of me:…",
                "bWU6Y29ycmVjdCBob3JzZStiYXR0ZXJ5L3MidMOkcGxl".to_owned(),
            ),
            (
                "base64 of you:…!",
                "Basic eW91OmNvcnJlY3QgaG9yc2UrYmF0dGVyeS9zInTDpHBsZSE".to_owned(),
            ),
            (
                "behind letters",
                "abcY29ycmVjdCBob3JzZStiYXR0ZXJ5L3MidMOkcGxl".to_owned(),
            ),
            ("hex", hex::encode(SECRET)),
            ("HEX", format!("f{}", hex::encode_upper(SECRET))),
            ("percent", percent_encoded(SECRET)),
            ("form", SECRET.replace('+', "%2B").replace(' ', "+")),
            ("JSON", json),
            (
                "hex of base64",
                hex::encode("Y29ycmVjdCBob3JzZStiYXR0ZXJ5L3MidMOkcGxl"),
            ),
            (
                "percent of base64",
                percent_encoded("Y29ycmVjdCBob3JzZStiYXR0ZXJ5L3MidMOkcGxl"),
            ),
        ] {
            assert_eq!(
                known.found("spark.x", &value),
                Some("the passphrase"),
                "{case}: {value}"
            );
        }
        for value in [
            "",
            "correct horse",
            "spark://h:7077",
            &hex::encode("correct horse+battery"),
            &"a".repeat(3 << 20),
        ] {
            assert_eq!(known.found("spark.x", value), None, "{value:.40}");
        }
        let long = format!("{}{SECRET}", "a ".repeat(2 << 20));
        assert!(known.found("spark.x", &long).is_some());
    }

    #[test]
    fn a_short_secret_is_found_as_a_word() {
        let known = known();
        for (key, value) in [
            ("spark.executorEnv.HSM", "pin:4711"),
            ("spark.driver.extraJavaOptions", "-Dport=1 -Da=4711"),
            ("spark.hsm.pin", "4711"),
            ("spark.x", "NDcxMQ== "),
        ] {
            assert_eq!(known.found(key, value), Some("a PIN"), "{key}={value}");
        }
        for (key, value) in [
            ("spark.ui.port", "4711"),
            ("spark.x", "14711"),
            ("spark.x", "a4711b"),
            ("spark.x", "47112"),
        ] {
            assert_eq!(known.found(key, value), None, "{key}={value}");
        }
    }
}
