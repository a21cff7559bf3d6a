//! Checks that several kinds have in common.

use coffer_custody::{Checks, policy::attestation::Hex};

/// Notes whether a value is on a list. An empty list allows nothing.
pub(crate) fn one_of<const N: usize>(
    checks: &mut Checks,
    name: &str,
    found: &[u8; N],
    allowed: &[Hex<N>],
) -> bool {
    let passed = allowed.iter().any(|one| one.0 == *found);
    let wanted = match (passed, allowed.len()) {
        (true, _) => String::new(),
        (false, 0) => ", the policy allows none".to_owned(),
        (false, 1) => ", which is not the one that the policy allows".to_owned(),
        (false, several) => format!(", which is none of the {several} that the policy allows"),
    };
    checks.note(name, passed, format!("{}{wanted}", Hex(*found)))
}

/// Notes whether the report binds what it must.
pub(crate) fn report_data(checks: &mut Checks, found: &[u8], expected: &[u8]) -> bool {
    let passed = found == expected;
    let wanted = if passed {
        ""
    } else {
        ", which is not for this owner, engine key and challenge"
    };
    checks.note(
        "report_data",
        passed,
        format!("{}{wanted}", hex::encode(found)),
    )
}
