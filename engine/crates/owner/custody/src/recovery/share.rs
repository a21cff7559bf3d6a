//! One share, and its bytes.
//!
//! ```text
//! 0  magic "CFSH"    4  version u8 (1)   5  set, 16 bytes
//! 21 threshold u8    22 count u8         23 number u8
//! 24 part of the key, 32 bytes           56 snapshot, to the end
//! ```
//! The set is the beginning of the snapshot's SHA-256: shares of one set hold the same snapshot.

use std::{fmt, str::FromStr};

use coffer_sealing::Secret;
use zeroize::Zeroizing;

use crate::recovery::{RecoveryError, sha256};

const MAGIC: &[u8; 4] = b"CFSH";
const VERSION: u8 = 1;
const SET_LEN: usize = 16;
const PART_LEN: usize = 32;

/// How many shares there are, and how many of them give the keyring back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    threshold: u8,
    count: u8,
}

impl Scheme {
    /// `2 <= threshold <= count`.
    pub fn new(threshold: u8, count: u8) -> Result<Self, RecoveryError> {
        if threshold < 2 || threshold > count {
            return Err(RecoveryError::Scheme);
        }
        Ok(Self { threshold, count })
    }

    /// So many give the keyring back.
    pub fn threshold(&self) -> u8 {
        self.threshold
    }

    /// So many there are.
    pub fn count(&self) -> u8 {
        self.count
    }
}

impl FromStr for Scheme {
    type Err = RecoveryError;

    /// "3-of-5".
    fn from_str(text: &str) -> Result<Self, RecoveryError> {
        let (threshold, count) = text.split_once("-of-").ok_or(RecoveryError::Scheme)?;
        let number = |text: &str| text.parse().map_err(|_| RecoveryError::Scheme);
        Self::new(number(threshold)?, number(count)?)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-of-{}", self.threshold, self.count)
    }
}

/// Which splitting a share comes from. Not secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetId([u8; SET_LEN]);

impl SetId {
    pub(crate) fn of(snapshot: &[u8]) -> Self {
        Self(
            sha256(&[b"coffer shares", snapshot])
                .first_chunk()
                .copied()
                .unwrap_or_default(),
        )
    }
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// One share. Secret like a part of a passphrase; no `Debug`.
#[derive(Clone)]
pub struct Share {
    set: SetId,
    scheme: Scheme,
    number: u8,
    part: Secret<PART_LEN>,
    snapshot: Vec<u8>,
}

impl Share {
    pub(crate) fn new(
        set: SetId,
        scheme: Scheme,
        number: u8,
        part: Secret<PART_LEN>,
        snapshot: Vec<u8>,
    ) -> Self {
        Self {
            set,
            scheme,
            number,
            part,
            snapshot,
        }
    }

    /// Which splitting it comes from.
    pub fn set(&self) -> SetId {
        self.set
    }

    /// How many shares the set has, and how many are needed.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// From 1 to the number of shares.
    pub fn number(&self) -> u8 {
        self.number
    }

    pub(crate) fn part(&self) -> &Secret<PART_LEN> {
        &self.part
    }

    pub(crate) fn snapshot(&self) -> &[u8] {
        &self.snapshot
    }

    /// For messages: number and set.
    pub(crate) fn name(&self) -> String {
        format!(
            "share {} ({}) of set {}",
            self.number, self.scheme, self.set
        )
    }

    /// Its bytes.
    pub(crate) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(56 + self.snapshot.len()));
        bytes.extend_from_slice(MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.set.0);
        bytes.extend_from_slice(&[self.scheme.threshold, self.scheme.count, self.number]);
        bytes.extend_from_slice(self.part.expose());
        bytes.extend_from_slice(&self.snapshot);
        bytes
    }

    /// From its bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, RecoveryError> {
        let malformed = || RecoveryError::Malformed("it is too short");
        let (magic, rest) = bytes.split_first_chunk::<4>().ok_or_else(malformed)?;
        if magic != MAGIC {
            return Err(RecoveryError::Malformed(
                "it does not begin as a share does",
            ));
        }
        let (version, rest) = rest.split_first().ok_or_else(malformed)?;
        if *version != VERSION {
            return Err(RecoveryError::Version(*version));
        }
        let (set, rest) = rest.split_first_chunk::<SET_LEN>().ok_or_else(malformed)?;
        let ([threshold, count, number], rest) =
            rest.split_first_chunk::<3>().ok_or_else(malformed)?;
        let (part, snapshot) = rest.split_first_chunk::<PART_LEN>().ok_or_else(malformed)?;
        let scheme = Scheme::new(*threshold, *count)?;
        if *number == 0 || number > count {
            return Err(RecoveryError::Malformed("its number is none of its set's"));
        }
        if SetId::of(snapshot) != SetId(*set) {
            return Err(RecoveryError::Malformed(
                "its snapshot is not that of its set",
            ));
        }
        Ok(Self::new(
            SetId(*set),
            scheme,
            *number,
            Secret::from_slice(part)?,
            snapshot.to_vec(),
        ))
    }
}
