//! What quotes of SGX and TDX have in common: Intel's signatures, the state of the platform, and
//! the collateral for both.
//!
//! Collateral is a file `KIND-FMSPC.json` (`sgx-00606a000000.json`) in the policy's folder, with
//! what Intel's provisioning certification service says of that model of platform, as dcap-qvl's
//! `QuoteCollateralV3` is written as JSON.

use std::{fmt::Write, fs::File, io::Read, path::Path};

use coffer_custody::{
    Attestation, Checks,
    policy::attestation::{Hex, Tcb},
};
use coffer_protocol::EvidenceKind;
use dcap_qvl::{QuoteCollateralV3, intel::quote_fmspc, quote::Quote, verify::QuoteVerifier};
use serde::Deserialize;

use crate::allowed;

/// A file of collateral is at most this long; real ones have 20 KB.
const MAX_COLLATERAL: u64 = 4 << 20;
const DAY: u64 = 24 * 3600;

/// Parses a quote. What follows it must be zeros, as some interfaces fill up their buffers.
pub(crate) fn parse(kind: EvidenceKind, report: &[u8], checks: &mut Checks) -> Option<Quote> {
    let Ok(quote) = Quote::parse(report) else {
        checks.note("form", false, "not a quote");
        return None;
    };
    if quote.report.is_sgx() != (kind == EvidenceKind::Sgx) {
        checks.note("form", false, format!("a quote, but not of {kind}"));
        return None;
    }
    let rest = length(report, &quote).and_then(|length| report.get(length..));
    if rest.is_none_or(|rest| rest.iter().any(|byte| *byte != 0)) {
        checks.note("form", false, "something follows the quote");
        return None;
    }
    checks.note(
        "form",
        true,
        format!("quote of version {}", quote.header.version),
    );
    Some(quote)
}

/// How many bytes the quote has: what is signed, then authentication data behind its length.
fn length(raw: &[u8], quote: &Quote) -> Option<usize> {
    let (_, rest) = raw.split_at_checked(quote.signed_length())?;
    let length = u32::from_le_bytes(*rest.first_chunk()?);
    quote
        .signed_length()
        .checked_add(4)?
        .checked_add(usize::try_from(length).ok()?)
}

/// Checks what Intel vouches for: signatures, certificates, and the state of the platform at `now`.
pub(crate) fn platform(
    kind: EvidenceKind,
    policy: &Attestation,
    (tcb, models): (&Tcb, Option<&Vec<Hex<6>>>),
    (raw, quote): (&[u8], &Quote),
    now: u64,
    checks: &mut Checks,
) {
    let Ok(fmspc) = quote_fmspc(quote) else {
        checks.note("collateral", false, "the quote does not name its platform");
        return;
    };
    if let Some(models) = models {
        allowed::one_of(checks, "platform", &fmspc, models);
    }
    let (collateral, name) = match collateral(kind, policy, fmspc) {
        Ok(found) => found,
        Err(why) => {
            checks.note("collateral", false, why);
            return;
        }
    };
    checks.note("collateral", true, name);
    let verified = match QuoteVerifier::new_prod().verify(raw, &collateral, now) {
        Ok(verified) => verified,
        Err(error) => {
            let mut causes = String::new();
            for cause in error.chain() {
                // Writing to a String cannot fail.
                let _ = write!(
                    causes,
                    "{}{cause}",
                    if causes.is_empty() { "" } else { ": " }
                );
            }
            checks.note(
                "signature",
                false,
                causes.chars().take(300).collect::<String>(),
            );
            return;
        }
    };
    checks.note(
        "signature",
        true,
        "by the processor, under Intel's root certificate",
    );
    collateral_age(policy, &collateral, now, checks);
    let accepted = tcb
        .states
        .iter()
        .any(|state| format!("{state:?}") == verified.status);
    let more = if accepted {
        ""
    } else {
        ", which the policy does not accept"
    };
    checks.note("tcb", accepted, format!("{}{more}", verified.status));
    let open: Vec<&String> = verified
        .advisory_ids
        .iter()
        .filter(|id| !tcb.advisories.contains(id))
        .collect();
    let found = match (verified.advisory_ids.as_slice(), open.as_slice()) {
        ([], _) => "none is open".to_owned(),
        (all, []) => format!("open and accepted: {}", all.join(", ")),
        (_, open) => {
            let open: Vec<&str> = open.iter().map(|id| id.as_str()).collect();
            format!("open, and not accepted: {}", open.join(", "))
        }
    };
    checks.note("advisories", open.is_empty(), found);
}

/// The collateral for a quote, and its file's name.
fn collateral(
    kind: EvidenceKind,
    policy: &Attestation,
    fmspc: [u8; 6],
) -> Result<(QuoteCollateralV3, String), String> {
    let name = format!("{kind}-{}.json", hex::encode(fmspc));
    let folder = policy
        .collateral
        .as_deref()
        .ok_or_else(|| format!("the policy names no folder with {name}"))?;
    let text = read(&folder.join(&name)).map_err(|error| format!("{name}: {error}"))?;
    let collateral = serde_json::from_slice(&text).map_err(|_| format!("{name} is malformed"))?;
    Ok((collateral, name))
}

/// Reads a file of bounded length.
pub(crate) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_COLLATERAL)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Issued {
    issue_date: chrono::DateTime<chrono::Utc>,
}

/// Both signed parts must be young enough. That they have not expired is part of `signature`.
fn collateral_age(
    policy: &Attestation,
    collateral: &QuoteCollateralV3,
    now: u64,
    checks: &mut Checks,
) {
    let issued = |text: &str| {
        let issued: Issued = serde_json::from_str(text).ok()?;
        u64::try_from(issued.issue_date.timestamp()).ok()
    };
    let oldest = issued(&collateral.tcb_info)
        .zip(issued(&collateral.qe_identity))
        .map(|(levels, identity)| levels.min(identity));
    let Some(oldest) = oldest else {
        checks.note(
            "collateral_age",
            false,
            "the collateral does not say when it was issued",
        );
        return;
    };
    let age = now.saturating_sub(oldest) / DAY;
    let most = u64::from(policy.max_collateral_age_days);
    let passed = age <= most && oldest <= now.saturating_add(DAY);
    checks.note(
        "collateral_age",
        passed,
        format!("{age} days, {most} are allowed"),
    );
}
