//! A TPM 2.0's quote: measured boot. It says what was booted; it does not keep the engine's memory
//! from the host.
//!
//! The evidence is eight bytes `CFTPMQ01` and four parts, each behind its length in four bytes,
//! most significant first: the attestation key's public area (TPMT_PUBLIC), what it signed
//! (TPMS_ATTEST), the signature (TPMT_SIGNATURE), and the PCRs, each as its number and its 32
//! bytes, in order. Structures: Trusted Platform Module Library, part 2.

mod key;
mod quote;
mod reader;

use coffer_custody::{Attestation, Checks, policy::attestation::Hex};
use ring::digest::{SHA256, digest};

use self::{key::Key, quote::Quote, reader::Reader};
use crate::allowed;

const MAGIC: &[u8; 8] = b"CFTPMQ01";
const VALUE: usize = 32;

/// The four parts.
struct Parts<'a> {
    key: &'a [u8],
    quote: &'a [u8],
    signature: &'a [u8],
    pcrs: Vec<(u8, [u8; VALUE])>,
}

pub(crate) fn check(
    policy: &Attestation,
    evidence: &[u8],
    expected: &[u8; 64],
    checks: &mut Checks,
) {
    let Some(parts) = parts(evidence) else {
        checks.note("form", false, "not a TPM's evidence");
        return;
    };
    let (Some(key), Some(quote)) = (Key::parse(parts.key), Quote::parse(parts.quote)) else {
        checks.note(
            "form",
            false,
            "its key or its quote is malformed, or of a kind that is not supported",
        );
        return;
    };
    checks.note(
        "form",
        true,
        format!("quote over {} PCRs", parts.pcrs.len()),
    );
    is_pinned(policy, parts.key, &key, checks);
    let signed = key.has_signed(parts.quote, parts.signature);
    checks.note(
        "signature",
        signed,
        if signed {
            "by this key"
        } else {
            "not by this key"
        },
    );
    let ours = quote.is_quote();
    let words = if ours {
        "made by a TPM over PCRs"
    } else {
        "signed, but not a quote"
    };
    checks.note("quote", ours, words);
    pcrs(policy, &quote, &parts.pcrs, checks);
    let (bound, _) = expected.split_at(32);
    allowed::report_data(checks, quote.extra_data, bound);
}

fn parts(evidence: &[u8]) -> Option<Parts<'_>> {
    let mut reader = Reader(evidence.strip_prefix(MAGIC.as_slice())?);
    let mut part = || {
        let length = usize::try_from(reader.u32()?).ok()?;
        reader.take(length)
    };
    let (key, quote, signature, values) = (part()?, part()?, part()?, part()?);
    if !reader.0.is_empty() {
        return None;
    }
    let mut values = Reader(values);
    let mut pcrs: Vec<(u8, [u8; VALUE])> = Vec::new();
    while !values.0.is_empty() {
        let number = values.u8()?;
        if number >= 24 || pcrs.last().is_some_and(|(last, _)| *last >= number) {
            return None;
        }
        pcrs.push((number, values.take(VALUE)?.try_into().ok()?));
    }
    Some(Parts {
        key,
        quote,
        signature,
        pcrs,
    })
}

/// The key is one that the owner enrolled, and one that signs nothing but what its TPM made.
fn is_pinned(policy: &Attestation, public: &[u8], key: &Key, checks: &mut Checks) {
    let name = Hex(sha256(public));
    let wrong = match (policy.tpm.ak.contains(&name), key.is_restricted()) {
        (_, false) => ": a key that signs other things than quotes, or that can leave its TPM",
        (false, true) if policy.tpm.ak.is_empty() => ": the policy allows none",
        (false, true) => ": not one that the policy allows",
        (true, true) => "",
    };
    checks.note("key", wrong.is_empty(), format!("{name}{wrong}"));
}

/// The values are those that were quoted, and each that the policy names is allowed.
fn pcrs(policy: &Attestation, quote: &Quote, values: &[(u8, [u8; VALUE])], checks: &mut Checks) {
    let all: Vec<u8> = values.iter().flat_map(|(_, value)| *value).collect();
    let numbers: Vec<u8> = values.iter().map(|(number, _)| *number).collect();
    if quote.pcrs != numbers || quote.digest != sha256(&all) {
        checks.note("pcrs", false, "not the values that were quoted");
        return;
    }
    if policy.tpm.pcrs.is_empty() {
        checks.note("pcrs", false, "the policy names none");
        return;
    }
    for (name, allowed) in &policy.tpm.pcrs {
        let found = values
            .iter()
            .find(|(number, _)| number.to_string() == *name);
        let check = format!("pcr{name}");
        match found {
            Some((_, value)) => allowed::one_of(checks, &check, value, allowed),
            None => checks.note(&check, false, "not in the quote"),
        };
    }
    checks.note("pcrs", true, "the values that were quoted");
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    for (to, from) in hash.iter_mut().zip(digest(&SHA256, bytes).as_ref()) {
        *to = *from;
    }
    hash
}
