//! TDX: quotes of versions 4 and 5.

use coffer_custody::{Attestation, Checks, policy::attestation::Hex};
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
        &policy.tdx.tcb,
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
    match &pins.attributes {
        Some(_) => {
            allowed::one_of_if(
                checks,
                "attributes",
                &machine.td_attributes,
                pins.attributes.as_ref(),
            );
        }
        None => {
            let more = match attributes.sec.migratable {
                true => ", migratable, which the policy does not allow",
                false => "",
            };
            let found = format!("{}{more}", Hex(machine.td_attributes));
            checks.note("attributes", !attributes.sec.migratable, found);
        }
    }
    allowed::one_of_if(checks, "xfam", &machine.xfam, pins.xfam.as_ref());
    allowed::one_of(checks, "mrtd", &machine.mr_td, &pins.mrtd);
    allowed::one_of(checks, "rtmr0", &machine.rt_mr0, &pins.rtmr0);
    allowed::one_of(checks, "rtmr1", &machine.rt_mr1, &pins.rtmr1);
    allowed::one_of(checks, "rtmr2", &machine.rt_mr2, &pins.rtmr2);
    allowed::one_of(checks, "rtmr3", &machine.rt_mr3, &pins.rtmr3);
    allowed::report_data(checks, &machine.report_data, expected);
}
