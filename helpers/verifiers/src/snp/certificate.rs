//! The certificate of the chip: found, chained to AMD's root, in force, and of this chip and
//! firmware.

use std::time::Duration;

use coffer_custody::Attestation;
use sev::{
    certs::snp::{Certificate, Chain, Verifiable, builtin, ca},
    firmware::guest::AttestationReport,
};
use x509_cert::der::{
    Decode,
    asn1::{ObjectIdentifier, OctetStringRef},
};

use crate::dcap;

/// Where the kernel's interface puts the certificate into its table.
const VCEK: [u8; 16] = [
    0x63, 0xda, 0x75, 0x8d, 0xe6, 0x64, 0x45, 0x64, 0xad, 0xc5, 0xf4, 0xb9, 0x3b, 0xe8, 0xac, 0xcd,
];
/// GUID, offset, length.
const ENTRY: usize = 24;
/// In the report: reported TCB and chip id.
const TCB: std::ops::Range<usize> = 0x180..0x188;
const CHIP: std::ops::Range<usize> = 0x1a0..0x1e0;

/// A certificate that vouches for the report's key.
pub(super) struct Found {
    pub(super) vcek: Certificate,
    pub(super) product: &'static str,
}

/// An authority of chips' certificates, and the one between it and them.
pub struct Root {
    product: &'static str,
    ark: Certificate,
    ask: Certificate,
}

impl Root {
    /// From certificates in PEM form. AMD's are built in; another is for tests, whose chips are
    /// emulated.
    pub fn new(product: &'static str, ark: &[u8], ask: &[u8]) -> std::io::Result<Self> {
        Ok(Self {
            product,
            ark: Certificate::from_pem(ark)?,
            ask: Certificate::from_pem(ask)?,
        })
    }

    /// AMD's, for Milan, Genoa and Turin.
    pub fn amd() -> Vec<Self> {
        let built_in = [
            ("Milan", builtin::milan::ark(), builtin::milan::ask()),
            ("Genoa", builtin::genoa::ark(), builtin::genoa::ask()),
            ("Turin", builtin::turin::ark(), builtin::turin::ask()),
        ];
        let root = |(product, ark, ask)| {
            let (Ok(ark), Ok(ask)) = (ark, ask) else {
                return None;
            };
            Some(Self { product, ark, ask })
        };
        built_in.into_iter().filter_map(root).collect()
    }
}

pub(super) fn find(
    policy: &Attestation,
    raw: &[u8],
    table: &[u8],
    report: &AttestationReport,
    roots: &[Root],
    now: u64,
) -> Result<Found, String> {
    let der = match in_table(table)? {
        Some(der) => der.to_vec(),
        None => in_folder(policy, raw)?,
    };
    let parsed = x509_cert::Certificate::from_der(&der)
        .map_err(|_| "the chip's certificate is malformed")?;
    of_this_chip(&parsed, report)?;
    in_force(&parsed, now)?;
    let vcek = Certificate::from_der(&der).map_err(|_| "the chip's certificate is malformed")?;
    for Root { product, ark, ask } in roots {
        let chain = Chain {
            ca: ca::Chain {
                ark: ark.clone(),
                ask: ask.clone(),
            },
            vek: vcek.clone(),
        };
        if (&chain).verify().is_ok() {
            return Ok(Found { vcek, product });
        }
    }
    Err("the chip's certificate is not AMD's".to_owned())
}

/// The certificate in the host's table, if there is one. The table ends with an entry of zeros.
fn in_table(table: &[u8]) -> Result<Option<&[u8]>, String> {
    let malformed = || "the host's table of certificates is malformed".to_owned();
    for entry in table.chunks(ENTRY) {
        let (guid, position) = entry.split_at_checked(16).ok_or_else(malformed)?;
        if guid.iter().all(|byte| *byte == 0) {
            break;
        }
        let number = |bytes: Option<&[u8]>| {
            let bytes: [u8; 4] = bytes?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(bytes)).ok()
        };
        let (offset, length) = number(position.get(..4))
            .zip(number(position.get(4..8)))
            .ok_or_else(malformed)?;
        if guid == VCEK {
            let end = offset.checked_add(length).ok_or_else(malformed)?;
            return table.get(offset..end).map(Some).ok_or_else(malformed);
        }
    }
    Ok(None)
}

fn in_folder(policy: &Attestation, raw: &[u8]) -> Result<Vec<u8>, String> {
    let digits = |range| raw.get(range).map(hex::encode).unwrap_or_default();
    let name = format!("vcek-{}-{}.der", digits(CHIP), digits(TCB));
    let folder = policy.collateral.as_deref().ok_or_else(|| {
        format!("none came with the report, and the policy names no folder with {name}")
    })?;
    dcap::read(&folder.join(&name))
        .map_err(|error| format!("none came with the report; {name}: {error}"))
}

fn in_force(certificate: &x509_cert::Certificate, now: u64) -> Result<(), String> {
    let validity = &certificate.tbs_certificate.validity;
    let now = Duration::from_secs(now);
    if now < validity.not_before.to_unix_duration() {
        return Err("the chip's certificate is not in force yet".to_owned());
    }
    if now > validity.not_after.to_unix_duration() {
        return Err("the chip's certificate has expired".to_owned());
    }
    Ok(())
}

/// AMD's extensions name the chip and the firmware for which the key exists.
fn of_this_chip(
    certificate: &x509_cert::Certificate,
    report: &AttestationReport,
) -> Result<(), String> {
    let amd = |last: &[u32]| {
        let mut oid = ObjectIdentifier::new("1.3.6.1.4.1.3704.1").ok()?;
        for arc in last {
            oid = oid.push_arc(*arc).ok()?;
        }
        let extensions = certificate.tbs_certificate.extensions.as_ref()?;
        let found = extensions
            .iter()
            .find(|extension| extension.extn_id == oid)?;
        Some(found.extn_value.as_bytes())
    };
    let number = |last: &[u32]| amd(last).and_then(|value| u8::from_der(value).ok());
    let found = &report.reported_tcb;
    let versions = [
        ("boot loader", number(&[3, 1]), Some(found.bootloader)),
        ("TEE", number(&[3, 2]), Some(found.tee)),
        ("SNP", number(&[3, 3]), Some(found.snp)),
        ("microcode", number(&[3, 8]), Some(found.microcode)),
        ("FMC", number(&[3, 9]), found.fmc),
    ];
    for (name, theirs, ours) in versions {
        if theirs != ours {
            return Err(format!(
                "the chip's certificate is for another version of {name}"
            ));
        }
    }
    let chip = amd(&[4]).ok_or("the chip's certificate names no chip")?;
    // Some certificates have the id as an OCTET STRING in the extension, most have it bare. Turin's
    // is shorter.
    let chip = OctetStringRef::from_der(chip).map_or(chip, |inner| inner.as_bytes());
    let same = (chip.len() == 64 || chip.len() == 8) && report.chip_id.starts_with(chip);
    let rest = report.chip_id.get(chip.len()..).unwrap_or_default();
    if !same || report.chip_id == [0; 64] || rest.iter().any(|byte| *byte != 0) {
        return Err("the chip's certificate is another chip's".to_owned());
    }
    Ok(())
}
