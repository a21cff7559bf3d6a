//! The proof that a policy is its owner's, and the newest.
//!
//! `policy.toml` decides everything at the client site, and lies beside programs that need no
//! passphrase to write to it. So its bytes are authenticated: `policy.sig` holds the version, the
//! MAC under a key of the keyring, and the bytes that were signed, so that a change can be shown as
//! a difference. Which version is the newest the register says (coffer-catalog), which is sealed:
//! an older pair of files that is put back is refused. What is checked is what is parsed: the file
//! is read once.
//!
//! ```text
//! policy.sig = "CFPS" ‖ format u16 LE (1) ‖ version u64 LE ‖
//!              HMAC-SHA-256(version u64 LE ‖ text) ‖ text
//! ```
//!
//! Not covered: a register that is rolled back together with both files. Who can do that has a copy
//! of the whole config directory.

use std::{
    fmt,
    fs::File,
    io,
    ops::Deref,
    path::{Path, PathBuf},
    str::FromStr,
    time::SystemTime,
};

use aws_lc_rs::digest;
use coffer_protocol::evidence::EvidenceError;

use crate::{
    ConfigDir, durable,
    policy::{Draft, LogPolicy, Logged, PolicyError, difference::difference, file},
};

pub use crate::keyring::PolicyKey;

const MAGIC: &[u8] = b"CFPS\x01\x00";
const MAC: usize = 32;
/// Bytes of a policy at most.
const LIMIT: u64 = 4 << 20;
/// Lines of a difference that an error shows; `coffer policy sign` shows all.
const SHOWN: usize = 40;

/// SHA-256 of a policy's bytes: which policy something was done under.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PolicyDigest([u8; 32]);

impl PolicyDigest {
    fn of(text: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, text).as_ref());
        Self(bytes)
    }
}

impl PolicyDigest {
    /// Its bytes.
    pub fn as_bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Display for PolicyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for PolicyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PolicyDigest {
    type Err = hex::FromHexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)?;
        Ok(Self(bytes))
    }
}

/// Which policy counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyHead {
    /// From 1.
    pub version: u64,
    /// Of its bytes.
    pub digest: PolicyDigest,
}

/// What the register knows of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyHeads {
    /// The newest that counts.
    pub committed: Option<PolicyHead>,
    /// One that is being written: it counts from the moment that both files are its own.
    pub pending: Option<PolicyHead>,
}

/// A policy that its owner signed, in its newest version. Made by [`Policy::read`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    draft: Draft,
    text: String,
    origin: PathBuf,
    head: PolicyHead,
}

impl Deref for Policy {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.draft
    }
}

impl Policy {
    /// Reads the policy of a config directory, and checks that its owner signed it and that the
    /// register knows no newer one.
    pub fn read(
        config_dir: &ConfigDir,
        key: &PolicyKey,
        heads: &PolicyHeads,
    ) -> Result<Self, PolicyError> {
        let path = config_dir.policy();
        let bytes = read_policy(&path)?;
        let shown = String::from_utf8_lossy(&bytes);
        let Some(signature) = Signature::read(&config_dir.policy_signature())? else {
            return Err(match heads.committed {
                Some(_) => PolicyError::SignatureGone(config_dir.policy_signature()),
                None => PolicyError::NotSigned {
                    path,
                    difference: difference("", &shown, SHOWN),
                },
            });
        };
        if !signature.is_of(key) {
            return Err(PolicyError::Signature(config_dir.policy_signature()));
        }
        let head = signature.head();
        if heads.committed != Some(head) && heads.pending != Some(head) {
            return Err(PolicyError::NotNewest {
                path,
                version: head.version,
                newest: heads.committed.map_or(0, |head| head.version),
            });
        }
        if signature.text != bytes {
            let signed = String::from_utf8_lossy(&signature.text);
            return Err(PolicyError::Changed {
                difference: difference(&signed, &shown, SHOWN),
                path,
            });
        }
        let text = text(&bytes, &path)?.to_owned();
        Ok(Self {
            draft: file::parse(&text, &path)?,
            text,
            origin: path,
            head,
        })
    }

    /// What the owner signed last, whatever the file says by now: for reports on a change that is
    /// still to be signed. Nothing that is done for a policy is done under this one.
    pub fn last(
        config_dir: &ConfigDir,
        key: &PolicyKey,
        heads: &PolicyHeads,
    ) -> Result<Self, PolicyError> {
        let (path, origin) = (config_dir.policy_signature(), config_dir.policy());
        let signature =
            Signature::read(&path)?.ok_or_else(|| PolicyError::SignatureGone(path.clone()))?;
        if !signature.is_of(key) {
            return Err(PolicyError::Signature(path));
        }
        let head = signature.head();
        if heads.committed != Some(head) && heads.pending != Some(head) {
            return Err(PolicyError::NotNewest {
                path: origin,
                version: head.version,
                newest: heads.committed.map_or(0, |head| head.version),
            });
        }
        let text = text(&signature.text, &origin)?.to_owned();
        Ok(Self {
            draft: file::parse(&text, &origin)?,
            text,
            origin,
            head,
        })
    }

    /// Without a signature: for tests of what reads a policy.
    #[cfg(test)]
    pub(crate) fn unsigned(text: &str) -> Self {
        let origin = PathBuf::from("/home/owner/policy.toml");
        Self {
            draft: file::parse(text, &origin).unwrap(),
            text: text.to_owned(),
            head: PolicyHead {
                version: 1,
                digest: PolicyDigest::of(text.as_bytes()),
            },
            origin,
        }
    }

    /// Its bytes.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The file; relative paths count from its folder.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// Its version and digest.
    pub fn head(&self) -> PolicyHead {
        self.head
    }

    /// The log that must show something before a key leaves, and this policy's digest if it must
    /// show that: as long as neither changes, what was in the log is there.
    pub fn demanded(&self) -> Option<(LogPolicy, Option<PolicyDigest>)> {
        let log = self.draft.log.as_ref()?;
        Some((log.clone(), log.demands_policy().then(|| self.digest())))
    }

    /// That all that it demands is in the log, itself perhaps.
    pub(crate) fn logged(&self, now: SystemTime) -> Result<Logged, EvidenceError> {
        match &self.draft.log {
            Some(log) => log.check(self.head.digest.0, now),
            None => Ok(Logged::NOT_ASKED),
        }
    }

    /// Its digest.
    pub fn digest(&self) -> PolicyDigest {
        self.head.digest
    }
}

/// What is to be signed, as it is shown to the owner first.
#[derive(Debug)]
pub struct Review {
    text: Vec<u8>,
    /// What is new against what was signed last; empty: nothing is.
    pub difference: String,
    /// What is wrong with the signature that is there, beside that it is of another text.
    pub trouble: Option<PolicyError>,
    /// Whether it is signed as it is.
    pub is_signed: bool,
}

impl Review {
    /// Of the policy that lies in a config directory.
    pub fn of(
        config_dir: &ConfigDir,
        key: &PolicyKey,
        heads: &PolicyHeads,
    ) -> Result<Self, PolicyError> {
        Self::of_text(read_policy(&config_dir.policy())?, config_dir, key, heads)
    }

    /// Of a text that is to become the policy of a config directory.
    pub fn of_text(
        text: Vec<u8>,
        config_dir: &ConfigDir,
        key: &PolicyKey,
        heads: &PolicyHeads,
    ) -> Result<Self, PolicyError> {
        let path = config_dir.policy();
        // What cannot be read as a policy is not signed.
        file::parse(self::text(&text, &path)?, &path)?;
        let (before, trouble, is_signed) = match Policy::read(config_dir, key, heads) {
            Ok(policy) => {
                let is_signed = policy.text.as_bytes() == text;
                (policy.text, None, is_signed)
            }
            Err(error) => {
                let signature = Signature::read(&config_dir.policy_signature())?;
                let before = signature
                    .filter(|signature| signature.is_of(key))
                    .map(|held| held.text);
                let before = String::from_utf8_lossy(&before.unwrap_or_default()).into_owned();
                let seen = !matches!(
                    error,
                    PolicyError::Changed { .. }
                        | PolicyError::NotSigned { .. }
                        | PolicyError::NotFound(_)
                );
                (before, seen.then_some(error), false)
            }
        };
        Ok(Self {
            difference: difference(&before, &String::from_utf8_lossy(&text), usize::MAX),
            text,
            trouble,
            is_signed,
        })
    }
}

/// Held while the policy of a config directory is read, changed and signed.
pub struct PolicyLock {
    policy: PathBuf,
    signature: PathBuf,
    _lock: File,
}

impl PolicyLock {
    /// Waits until nobody else has it.
    pub fn take(config_dir: &ConfigDir) -> Result<Self, PolicyError> {
        let policy = config_dir.policy();
        let lock = durable::lock(&policy).map_err(|source| io(&policy, source))?;
        Ok(Self {
            policy,
            signature: config_dir.policy_signature(),
            _lock: lock,
        })
    }

    /// Errors when the policy is not the one that was shown any more. One that does not exist yet
    /// is none that changed.
    pub fn check_shown(&self, review: &Review) -> Result<(), PolicyError> {
        match read_policy(&self.policy) {
            Ok(bytes) if bytes == review.text => Ok(()),
            Ok(_) => Err(PolicyError::ChangedMeanwhile(self.policy.clone())),
            Err(error) => Err(error),
        }
    }

    /// The version that follows all that there were.
    pub fn next(
        &self,
        key: &PolicyKey,
        heads: &PolicyHeads,
        text: &[u8],
    ) -> Result<PolicyHead, PolicyError> {
        file::parse(self::text(text, &self.policy)?, &self.policy)?;
        let held = Signature::read(&self.signature).unwrap_or_default();
        let held = held.filter(|held| held.is_of(key)).map(|held| held.version);
        let known = [heads.committed, heads.pending].into_iter().flatten();
        let newest = known
            .map(|head| head.version)
            .chain(held)
            .max()
            .unwrap_or(0);
        Ok(PolicyHead {
            version: newest.saturating_add(1),
            digest: PolicyDigest::of(text),
        })
    }

    /// Writes a policy that nobody signed.
    pub fn put_unsigned(&self, text: &str) -> Result<(), PolicyError> {
        durable::replace(&self.policy, text.as_bytes()).map_err(|source| io(&self.policy, source))
    }

    /// Writes the policy and its signature. The register has `head` as pending, and commits it
    /// after this.
    pub fn put(&self, key: &PolicyKey, head: PolicyHead, text: &[u8]) -> Result<(), PolicyError> {
        if read_policy(&self.policy).ok().as_deref() != Some(text) {
            durable::replace(&self.policy, text).map_err(|source| io(&self.policy, source))?;
        }
        let mac = key
            .mac(head.version, text)
            .map_err(|_| PolicyError::NoMac)?;
        let bytes = [MAGIC, &head.version.to_le_bytes(), &mac, text].concat();
        durable::replace(&self.signature, &bytes).map_err(|source| io(&self.signature, source))
    }
}

impl Review {
    /// What it is about.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Of the same.
    pub fn digest(&self) -> PolicyDigest {
        PolicyDigest::of(&self.text)
    }
}

/// Whether a policy is the text that lies in its signature, whoever made that: for reports, without
/// the passphrase.
pub fn looks_signed(config_dir: &ConfigDir) -> bool {
    let signature = Signature::read(&config_dir.policy_signature())
        .ok()
        .flatten();
    let text = read(&config_dir.policy()).ok();
    signature.is_some_and(|signature| Some(signature.text) == text)
}

/// What `policy.sig` holds.
struct Signature {
    version: u64,
    mac: [u8; MAC],
    text: Vec<u8>,
}

impl Signature {
    /// None: there is no such file.
    fn read(path: &Path) -> Result<Option<Self>, PolicyError> {
        let bytes = match read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io(path, source)),
        };
        let parsed =
            Self::parse(&bytes).ok_or_else(|| PolicyError::Signature(path.to_path_buf()))?;
        Ok(Some(parsed))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
        let (mac, text) = rest.split_first_chunk::<MAC>()?;
        Some(Self {
            version: u64::from_le_bytes(*version),
            mac: *mac,
            text: text.to_vec(),
        })
    }

    fn is_of(&self, key: &PolicyKey) -> bool {
        key.is_mac(self.version, &self.text, &self.mac)
    }

    fn head(&self) -> PolicyHead {
        PolicyHead {
            version: self.version,
            digest: PolicyDigest::of(&self.text),
        }
    }
}

/// A policy's bytes.
pub(super) fn read_policy(path: &Path) -> Result<Vec<u8>, PolicyError> {
    read(path).map_err(|source| PolicyError::read(path, source))
}

/// A policy's bytes as text.
pub(super) fn text<'a>(bytes: &'a [u8], path: &Path) -> Result<&'a str, PolicyError> {
    std::str::from_utf8(bytes).map_err(|error| PolicyError::Syntax {
        path: path.to_path_buf(),
        reason: error.to_string(),
    })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // The signature has the text and some bytes more.
    durable::read_at_most(path, LIMIT + 4095)
}

fn io(path: &Path, source: io::Error) -> PolicyError {
    PolicyError::Io {
        path: path.to_path_buf(),
        source,
    }
}
