//! `[attestation.release]`: the measurements of a release in the place of loose numbers.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    Release, durable,
    policy::{
        PolicyError,
        attestation::{Attestation, Hex},
    },
};

/// Bytes of a `release.json` at most.
const MOST: u64 = 1 << 20;

/// A release by its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedRelease {
    /// Its `release.json`.
    pub file: PathBuf,
    /// SHA-256 of that file: what the policy's signature covers.
    pub sha256: Hex<32>,
}

impl Attestation {
    /// Adds the measurements of the release that is pinned, if one is. Gives whether no other code
    /// is accepted, of the kinds whose code a release knows.
    pub(super) fn with_release(mut self, folder: &Path) -> Result<(Self, bool), PolicyError> {
        let alone = self.sgx.mrenclave.is_empty()
            && self.sgx.signers.is_empty()
            && self.tdx.mrtd.is_empty()
            && self.tdx.rtmr0.is_empty()
            && self.tdx.rtmr1.is_empty()
            && self.tdx.rtmr2.is_empty()
            && self.sev_snp.measurement.is_empty();
        let Some(pinned) = &mut self.release else {
            return Ok((self, alone));
        };
        pinned.file = folder.join(&pinned.file);
        let path = pinned.file.clone();
        let failed = |reason: String| PolicyError::Release {
            path: path.clone(),
            reason,
        };
        let bytes =
            durable::read_at_most(&path, MOST).map_err(|error| failed(error.to_string()))?;
        let found = coffer_sealing::sha256(&bytes);
        if found != pinned.sha256.0 {
            return Err(failed(format!("its SHA-256 is {}", hex::encode(found))));
        }
        let release = Release::parse(&bytes).map_err(|error| failed(error.to_string()))?;
        for (kind, values) in &release.measurements {
            for (name, value) in values {
                self.pin(kind, name, value)
                    .map_err(|what| failed(format!("{kind} {name}: {what}")))?;
            }
        }
        Ok((self, alone))
    }

    fn pin(&mut self, kind: &str, name: &str, value: &str) -> Result<(), &'static str> {
        match (kind, name) {
            ("sgx", "mrenclave") => add(&mut self.sgx.mrenclave, value),
            ("tdx", "mrtd") => add(&mut self.tdx.mrtd, value),
            ("tdx", "rtmr0") => add(&mut self.tdx.rtmr0, value),
            ("tdx", "rtmr1") => add(&mut self.tdx.rtmr1, value),
            ("tdx", "rtmr2") => add(&mut self.tdx.rtmr2, value),
            ("tdx", "rtmr3") => add(&mut self.tdx.rtmr3, value),
            ("sev-snp", "measurement") => add(&mut self.sev_snp.measurement, value),
            _ => Err("this version knows no such measurement"),
        }
    }
}

fn add<const N: usize>(list: &mut Vec<Hex<N>>, value: &str) -> Result<(), &'static str> {
    let mut bytes = [0; N];
    hex::decode_to_slice(value, &mut bytes).map_err(|_| "it is no measurement of its length")?;
    if !list.contains(&Hex(bytes)) {
        list.push(Hex(bytes));
    }
    Ok(())
}
