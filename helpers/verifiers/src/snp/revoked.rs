//! AMD's lists of revoked certificates: by the root, of those it has signed itself (RFC 5280,
//! section 5). A chip's key is not revoked; it falls with its firmware's version.

use std::time::Duration;

use ring::signature::{RSA_PSS_2048_8192_SHA384, UnparsedPublicKey};
use x509_cert::{
    Certificate,
    crl::CertificateList,
    der::{Decode, Encode, asn1::ObjectIdentifier},
};

/// RSASSA-PSS, as AMD's root signs (RFC 8017).
const PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");

/// Whether the list is the root's and in force, and does not name a certificate that the root
/// signed.
pub(super) fn check(
    list: &[u8],
    root: &Certificate,
    signed: &Certificate,
    now: u64,
) -> Result<(), String> {
    let list = CertificateList::from_der(list)
        .map_err(|_| "the list of revoked certificates is malformed")?;
    let tbs = &list.tbs_cert_list;
    let by_root = tbs.issuer == root.tbs_certificate.subject
        && tbs.signature == list.signature_algorithm
        && list.signature_algorithm.oid == PSS
        && has_signed(root, tbs, list.signature.raw_bytes());
    if !by_root {
        return Err("the list of revoked certificates is not signed by AMD's root".to_owned());
    }
    let now = Duration::from_secs(now);
    if now < tbs.this_update.to_unix_duration() {
        return Err("the list of revoked certificates is not in force yet".to_owned());
    }
    let until = tbs.next_update.map(|time| time.to_unix_duration());
    if until.is_none_or(|until| now > until) {
        return Err("the list of revoked certificates has expired".to_owned());
    }
    let number = &signed.tbs_certificate.serial_number;
    let named = tbs.revoked_certificates.iter().flatten();
    if named
        .into_iter()
        .any(|entry| entry.serial_number == *number)
    {
        return Err("AMD has revoked the certificate above that of the report's key".to_owned());
    }
    Ok(())
}

fn has_signed(root: &Certificate, list: &impl Encode, signature: &[u8]) -> bool {
    let key = &root
        .tbs_certificate
        .subject_public_key_info
        .subject_public_key;
    // What is signed is what was parsed, written again.
    list.to_der().is_ok_and(|list| {
        UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA384, key.raw_bytes())
            .verify(&list, signature)
            .is_ok()
    })
}
