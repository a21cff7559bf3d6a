//! Whose a certificate is: its subject alternative names, as RFC 5280 (section 4.2.1.6) has them.

use coffer_protocol::wire::Introduce;
use x509_cert::{
    Certificate,
    der::Decode,
    ext::pkix::{SubjectAltName, name::GeneralName},
};

/// Names that are taken of a certificate.
const MOST: usize = 64;

/// Whom a connection is for. A subject's own name is not looked at: what an authority writes there
/// it need not have verified. `None`: it is no certificate.
pub fn introduce(certificate: &[u8]) -> Option<Introduce> {
    let parsed = Certificate::from_der(certificate).ok()?;
    let names = match parsed.tbs_certificate.get::<SubjectAltName>().ok()? {
        Some((_, SubjectAltName(names))) => names,
        None => Vec::new(),
    };
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
    Some(Introduce {
        names: names.iter().filter_map(text).take(MOST).collect(),
        fingerprint: digest.as_ref().to_vec().into(),
    })
}

fn text(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::Rfc822Name(name) | GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::UniformResourceIdentifier(name) => Some(name.to_string()),
        _ => None,
    }
}
