//! What `[attestation]` pins: which code, in which state of the hardware, makes an engine trusted,
//! one section per kind.
//!
//! Lists name what is allowed: an empty or absent one allows nothing, and a setting that only
//! narrows is optional and says so. The section goes to the verifiers' process as JSON, hence
//! `Serialize`.

use std::{collections::BTreeMap, fmt, num::NonZeroU32, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::pinned::PinnedRelease;

/// So many bytes, written in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hex<const N: usize>(pub [u8; N]);

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl<const N: usize> fmt::Debug for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; N];
        hex::decode_to_slice(&text, &mut bytes).map_err(|_| {
            de::Error::custom(format!("{text:?} is not {} hexadecimal digits", 2 * N))
        })?;
        Ok(Self(bytes))
    }
}

/// The section `[attestation]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Attestation {
    /// Kinds of evidence that are accepted.
    pub accept: Vec<String>,
    /// The folder of collateral: certificates, lists of revoked ones, TCB levels. Nothing is
    /// fetched.
    pub collateral: Option<PathBuf>,
    /// How old Intel's TCB levels may be at most, however long they say they hold.
    pub max_collateral_age_days: u32,
    /// How long after its challenge evidence is taken.
    pub max_evidence_age_seconds: u32,
    /// How long an engine is relied on after it proved itself: then it proves itself again, or gets
    /// no key and loses its sessions.
    pub renew_evidence_after_seconds: NonZeroU32,
    /// A release whose measurements count as pinned.
    pub release: Option<PinnedRelease>,
    /// Intel SGX.
    pub sgx: Sgx,
    /// Intel TDX.
    pub tdx: Tdx,
    /// AMD SEV-SNP.
    #[serde(rename = "sev-snp")]
    pub sev_snp: SevSnp,
    /// A TPM.
    pub tpm: Tpm,
}

const A_DAY: NonZeroU32 = match NonZeroU32::new(86_400) {
    Some(seconds) => seconds,
    None => NonZeroU32::MIN,
};

impl Default for Attestation {
    fn default() -> Self {
        Self {
            accept: Vec::new(),
            collateral: None,
            max_collateral_age_days: 30,
            max_evidence_age_seconds: 300,
            renew_evidence_after_seconds: A_DAY,
            release: None,
            sgx: Sgx::default(),
            tdx: Tdx::default(),
            sev_snp: SevSnp::default(),
            tpm: Tpm::default(),
        }
    }
}

/// Intel's words on the state of a platform. `Revoked` is not among them: nothing accepts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "Intel's names, explained in its documentation")]
pub enum TcbState {
    UpToDate,
    SWHardeningNeeded,
    ConfigurationNeeded,
    ConfigurationAndSWHardeningNeeded,
    OutOfDate,
    OutOfDateConfigurationNeeded,
    TDRelaunchAdvised,
    TDRelaunchAdvisedConfigurationNeeded,
}

/// Which states of a platform are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcb {
    /// The states. Absent: up to date only.
    pub states: Vec<TcbState>,
    /// The advisories that may be open; each that is open must be here.
    pub advisories: Vec<String>,
}

impl Default for Tcb {
    fn default() -> Self {
        Self {
            states: vec![TcbState::UpToDate],
            advisories: Vec::new(),
        }
    }
}

/// SGX: an enclave by its measurement, or by its signer. Enclaves in debug mode are never accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sgx {
    /// Measurements of enclaves.
    pub mrenclave: Vec<Hex<32>>,
    /// Signers, with one product of each.
    pub signers: Vec<Signer>,
    /// Narrows: models of platforms (FMSPC).
    pub fmspc: Option<Vec<Hex<6>>>,
    /// States of the platform.
    pub tcb: Tcb,
}

/// An enclave by who signed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signer {
    /// SHA-256 of the signer's public key.
    pub mrsigner: Hex<32>,
    /// ISVPRODID.
    pub product: u16,
    /// The least ISVSVN.
    pub min_svn: u16,
}

/// TDX: a virtual machine by its firmware and what was measured at run time. Debug is never
/// accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tdx {
    /// The initial contents.
    pub mrtd: Vec<Hex<48>>,
    /// Firmware's configuration.
    pub rtmr0: Vec<Hex<48>>,
    /// Boot loader and kernel.
    pub rtmr1: Vec<Hex<48>>,
    /// Command line and initial RAM disk.
    pub rtmr2: Vec<Hex<48>>,
    /// What the system itself measured.
    pub rtmr3: Vec<Hex<48>>,
    /// The TD's attributes as they are in the report.
    pub attributes: Vec<Hex<8>>,
    /// The extended features as they are in the report.
    pub xfam: Vec<Hex<8>>,
    /// Narrows: models of platforms (FMSPC).
    pub fmspc: Option<Vec<Hex<6>>>,
    /// States of the platform.
    pub tcb: Tcb,
}

/// Versions of an AMD platform's firmware, least ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the parts' names in AMD's reports")]
pub struct SnpTcb {
    pub bootloader: u8,
    pub tee: u8,
    pub snp: u8,
    pub microcode: u8,
    /// Turin only.
    #[serde(default)]
    pub fmc: u8,
}

/// SEV-SNP: a virtual machine by its launch measurement. Debug and migration agents are never
/// accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SevSnp {
    /// Launch measurements.
    pub measurement: Vec<Hex<48>>,
    /// HOST_DATA. Absent: zeros only.
    pub host_data: Option<Vec<Hex<32>>>,
    /// The privilege level that asked for the report: this or a more privileged one. Absent: 0
    /// only.
    pub max_vmpl: u32,
    /// The least versions of the firmware. Absent: none is accepted.
    pub min_tcb: Option<SnpTcb>,
    /// Narrows: these chips, by their ids in reports.
    pub chips: Option<Vec<Hex<64>>>,
    /// Cloud providers, by their names in AMD's certificates, whose keys may sign reports in the
    /// place of the chip's own (VLEK). Empty: none.
    pub providers: Vec<String>,
    /// Narrows: AMD's list of revoked certificates must be in the folder of collateral, in force.
    /// One that is there is looked into in any case.
    pub require_revocation_list: bool,
    /// Narrows: no simultaneous multithreading on the host.
    pub forbid_smt: bool,
    /// Narrows: no memory behind CXL.
    pub forbid_cxl: bool,
    /// Narrows: one socket only.
    pub require_single_socket: bool,
    /// Narrows: memory under AES-256-XTS; without it AES-128-XEX may do.
    pub require_aes_256_xts: bool,
    /// Narrows: the host cannot read the power meter (RAPL).
    pub require_rapl_disabled: bool,
    /// Narrows: the host cannot read the ciphertext of the machine's memory.
    pub require_ciphertext_hiding: bool,
    /// Narrows: the host cannot move or swap the machine's pages.
    pub require_page_swap_disabled: bool,
}

/// TPM: measured boot. It says what was booted, and keeps no memory secret from the host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tpm {
    /// By PCR of the SHA-256 bank, its allowed values. Others are not looked at.
    pub pcrs: BTreeMap<String, Vec<Hex<32>>>,
    /// Attestation keys: SHA-256 over the key's public area (TPMT_PUBLIC), as it is in the key's
    /// name.
    pub ak: Vec<Hex<32>>,
}
