//! The certificate of the key that signed a report: found, chained to AMD's root, not revoked, in
//! force, and of this firmware and this chip or cloud provider.

use std::time::Duration;

use coffer_custody::Attestation;
use sev::{
    certs::snp::{Certificate, Chain, Verifiable, builtin, ca},
    firmware::guest::AttestationReport,
};
use x509_cert::der::{
    Decode,
    asn1::{Ia5StringRef, ObjectIdentifier, OctetStringRef},
};

use super::revoked;
use crate::dcap;

/// Where the kernel's interface puts the certificate into its table.
const VCEK: [u8; 16] = [
    0x63, 0xda, 0x75, 0x8d, 0xe6, 0x64, 0x45, 0x64, 0xad, 0xc5, 0xf4, 0xb9, 0x3b, 0xe8, 0xac, 0xcd,
];
/// The same of a cloud provider's key.
const VLEK: [u8; 16] = [
    0xa8, 0x07, 0x4b, 0xc2, 0xa2, 0x5a, 0x48, 0x3e, 0xaa, 0xe6, 0x39, 0xc0, 0x45, 0xa0, 0xb8, 0xa1,
];
/// GUID, offset, length.
const ENTRY: usize = 24;
/// In the report: reported TCB and chip id.
const TCB: std::ops::Range<usize> = 0x180..0x188;
const CHIP: std::ops::Range<usize> = 0x1a0..0x1e0;

/// A certificate that vouches for the report's key.
pub(super) struct Found {
    pub(super) certificate: Certificate,
    pub(super) words: String,
}

/// Which key signed a report, by what the report says of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The chip's own: VCEK.
    Chip,
    /// One that AMD lent to a cloud provider for its chips: VLEK.
    Provider,
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
    let key = match report.key_info.signing_key() {
        0 => Key::Chip,
        1 => Key::Provider,
        _ => return Err("the report is signed by no key of AMD's".to_owned()),
    };
    if key == Key::Provider && policy.sev_snp.providers.is_empty() {
        return Err("a cloud provider's key signed, and the policy lists no providers".to_owned());
    }
    let der = match in_table(table, if key == Key::Chip { VCEK } else { VLEK })? {
        Some(der) => der.to_vec(),
        None => in_folder(policy, raw, key)?,
    };
    let malformed = |_| "the certificate of the report's key is malformed".to_owned();
    let parsed = x509_cert::Certificate::from_der(&der).map_err(malformed)?;
    of_this_firmware(&parsed, report)?;
    let whose = match key {
        Key::Chip => of_this_chip(&parsed, report).map(|()| "this chip".to_owned())?,
        Key::Provider => provider(&parsed, &policy.sev_snp.providers)?,
    };
    in_force(&parsed, now)?;
    let certificate = Certificate::from_der(&der)
        .map_err(|_| "the certificate of the report's key is malformed")?;
    for Root { product, ark, ask } in roots {
        let between = match key {
            Key::Chip => ask.clone(),
            Key::Provider => match for_providers(policy, product)? {
                Some(asvk) => asvk,
                None => continue,
            },
        };
        let chain = Chain {
            ca: ca::Chain {
                ark: ark.clone(),
                ask: between.clone(),
            },
            vek: certificate.clone(),
        };
        if (&chain).verify().is_ok() {
            let list = not_revoked(policy, product, ark, &between, now)?;
            let words = format!("of {whose}, {product}{list}");
            return Ok(Found { certificate, words });
        }
    }
    Err(match key {
        Key::Chip => "the chip's certificate is not AMD's",
        Key::Provider => {
            "the provider's certificate is not AMD's, or the policy's folder has no \
             asvk-PRODUCT.pem above it"
        }
    }
    .to_owned())
}

/// AMD's certificate above those of providers' keys. Roots do not have it built in; it counts by
/// the root's signature.
fn for_providers(policy: &Attestation, product: &str) -> Result<Option<Certificate>, String> {
    let name = format!("asvk-{product}.pem");
    let Some(pem) = optional(policy, &name)? else {
        return Ok(None);
    };
    Certificate::from_pem(&pem)
        .map(Some)
        .map_err(|_| format!("{name} is no certificate in PEM form"))
}

/// Looks into AMD's list of what is revoked, if there is one, or one is asked for.
fn not_revoked(
    policy: &Attestation,
    product: &str,
    ark: &Certificate,
    between: &Certificate,
    now: u64,
) -> Result<&'static str, String> {
    let name = format!("crl-{product}.der");
    let Some(list) = optional(policy, &name)? else {
        return if policy.sev_snp.require_revocation_list {
            Err(format!(
                "the policy asks for AMD's list of revoked certificates, {name}"
            ))
        } else {
            Ok("")
        };
    };
    let parsed = |certificate: &Certificate| {
        let der = certificate.to_der().ok()?;
        x509_cert::Certificate::from_der(&der).ok()
    };
    let (Some(ark), Some(between)) = (parsed(ark), parsed(between)) else {
        return Err("a certificate of AMD's is malformed".to_owned());
    };
    revoked::check(&list, &ark, &between, now)?;
    Ok(", not revoked")
}

/// A file of the policy's folder that need not be there.
fn optional(policy: &Attestation, name: &str) -> Result<Option<Vec<u8>>, String> {
    let Some(folder) = &policy.collateral else {
        return Ok(None);
    };
    let path = folder.join(name);
    if !path.exists() {
        return Ok(None);
    }
    dcap::read(&path)
        .map(Some)
        .map_err(|error| format!("{name}: {error}"))
}

/// The certificate in the host's table, if there is one. The table ends with an entry of zeros.
fn in_table(table: &[u8], which: [u8; 16]) -> Result<Option<&[u8]>, String> {
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
        if guid == which {
            let end = offset.checked_add(length).ok_or_else(malformed)?;
            return table.get(offset..end).map(Some).ok_or_else(malformed);
        }
    }
    Ok(None)
}

fn in_folder(policy: &Attestation, raw: &[u8], key: Key) -> Result<Vec<u8>, String> {
    let digits = |range| raw.get(range).map(hex::encode).unwrap_or_default();
    let name = match key {
        Key::Chip => format!("vcek-{}-{}.der", digits(CHIP), digits(TCB)),
        Key::Provider => format!("vlek-{}.der", digits(TCB)),
    };
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
        return Err("the certificate of the report's key is not in force yet".to_owned());
    }
    if now > validity.not_after.to_unix_duration() {
        return Err("the certificate of the report's key has expired".to_owned());
    }
    Ok(())
}

/// What AMD's extension of a certificate says (57230, table 8 and 9).
fn extension<'a>(certificate: &'a x509_cert::Certificate, last: &[u32]) -> Option<&'a [u8]> {
    let mut oid = ObjectIdentifier::new("1.3.6.1.4.1.3704.1").ok()?;
    for arc in last {
        oid = oid.push_arc(*arc).ok()?;
    }
    let extensions = certificate.tbs_certificate.extensions.as_ref()?;
    let found = extensions
        .iter()
        .find(|extension| extension.extn_id == oid)?;
    Some(found.extn_value.as_bytes())
}

/// The versions of firmware for which the key exists.
fn of_this_firmware(
    certificate: &x509_cert::Certificate,
    report: &AttestationReport,
) -> Result<(), String> {
    let number =
        |last: &[u32]| extension(certificate, last).and_then(|value| u8::from_der(value).ok());
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
                "the certificate of the report's key is for another version of {name}"
            ));
        }
    }
    Ok(())
}

fn of_this_chip(
    certificate: &x509_cert::Certificate,
    report: &AttestationReport,
) -> Result<(), String> {
    let chip = extension(certificate, &[4]).ok_or("the chip's certificate names no chip")?;
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

/// Whose key it is: one of the providers that the policy lists.
fn provider(certificate: &x509_cert::Certificate, listed: &[String]) -> Result<String, String> {
    let name = extension(certificate, &[5])
        .and_then(|value| Ia5StringRef::from_der(value).ok())
        .ok_or("the provider's certificate names no provider")?;
    if extension(certificate, &[4]).is_some() {
        return Err("the provider's certificate names a chip".to_owned());
    }
    if !listed.iter().any(|allowed| allowed == name.as_str()) {
        return Err(format!(
            "the cloud provider {:?} is not among the policy's",
            name.as_str()
        ));
    }
    Ok(format!("the cloud provider {:?}", name.as_str()))
}
