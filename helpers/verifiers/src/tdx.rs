//! TDX: quotes of versions 4 and 5.

use coffer_custody::{Attestation, Checks};
use coffer_protocol::EvidenceKind;
use dcap_qvl::quote::TDAttributes;

use crate::{allowed, dcap};

pub(crate) fn check(
    policy: &Attestation,
    report: &[u8],
    expected: &[u8; 64],
    now: u64,
    checks: &mut Checks,
) {
    let Some(quote) = dcap::parse(EvidenceKind::Tdx, report, checks) else {
        return;
    };
    dcap::platform(
        EvidenceKind::Tdx,
        policy,
        (&policy.tdx.tcb, policy.tdx.fmspc.as_ref()),
        (report, &quote),
        now,
        checks,
    );
    let Some(machine) = quote.report.as_td10() else {
        return;
    };
    let pins = &policy.tdx;
    let Ok(attributes) = TDAttributes::parse(machine.td_attributes) else {
        return;
    };
    let sound = attributes.tud == 0 && attributes.reserved == 0;
    checks.note(
        "debug",
        sound,
        if sound {
            "off"
        } else {
            "on: the host can read the machine"
        },
    );
    allowed::one_of(
        checks,
        "attributes",
        &machine.td_attributes,
        &pins.attributes,
    );
    allowed::one_of(checks, "xfam", &machine.xfam, &pins.xfam);
    allowed::one_of(checks, "mrtd", &machine.mr_td, &pins.mrtd);
    allowed::one_of(checks, "rtmr0", &machine.rt_mr0, &pins.rtmr0);
    allowed::one_of(checks, "rtmr1", &machine.rt_mr1, &pins.rtmr1);
    allowed::one_of(checks, "rtmr2", &machine.rt_mr2, &pins.rtmr2);
    allowed::one_of(checks, "rtmr3", &machine.rt_mr3, &pins.rtmr3);
    allowed::report_data(checks, &machine.report_data, expected);
}
