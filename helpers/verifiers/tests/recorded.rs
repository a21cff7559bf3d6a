//! Recorded evidence of real machines, as it is, aged, cut, flipped and held against other
//! policies. Where it comes from: vectors/README.md.

use std::path::{Path, PathBuf};

use coffer_custody::{
    Attestation, Checks,
    policy::attestation::{Hex, SevSnp, Signer, SnpTcb, TcbState},
};
use coffer_protocol::EvidenceKind;
use coffer_verifiers::check;

/// When the collateral of the first quotes was in force: June 2025.
const THEN: u64 = 1_750_420_000;
const YEAR: u64 = 365 * 24 * 3600;

fn vector(name: &str) -> Vec<u8> {
    std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/vectors")
            .join(name),
    )
    .unwrap()
}

fn at<const N: usize>(report: &[u8], offset: usize) -> [u8; N] {
    report[offset..offset + N].try_into().unwrap()
}

/// A report, the policy that it meets, and what it binds.
#[derive(Clone)]
struct Case {
    kind: EvidenceKind,
    report: Vec<u8>,
    policy: Attestation,
    expected: [u8; 64],
    now: u64,
    _folder: std::sync::Arc<tempfile::TempDir>,
}

impl Case {
    fn new(kind: EvidenceKind, report: &str, data: usize) -> Self {
        let report = match report.strip_suffix(".hex") {
            Some(_) => hex::decode(vector(report)).unwrap(),
            None => vector(report),
        };
        let folder = tempfile::tempdir().unwrap();
        let policy = Attestation {
            collateral: Some(folder.path().to_path_buf()),
            ..Attestation::default()
        };
        Self {
            kind,
            expected: at(&report, data),
            report,
            policy,
            now: THEN,
            _folder: std::sync::Arc::new(folder),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.policy.collateral.as_ref().unwrap().join(name)
    }

    /// Puts collateral where it is looked for: the name that a first try asks for.
    fn with_collateral(self, vector_name: &str) -> Self {
        let checks = self.check();
        let found = failure(&checks, "collateral").or_else(|| failure(&checks, "certificate"));
        let found = found.expect("the collateral is missing").to_owned();
        let name = found
            .split([' ', ':'])
            .find(|word| word.ends_with(".json") || word.ends_with(".der"));
        std::fs::write(self.file(name.expect(&found)), vector(vector_name)).unwrap();
        self
    }

    fn check(&self) -> Checks {
        check(
            self.kind,
            &self.policy,
            &self.report,
            &self.expected,
            self.now,
        )
    }

    fn passes(&self) -> bool {
        self.check().verdict(self.kind).is_ok()
    }

    /// The checks that fail, in order.
    fn failures(&self) -> Vec<String> {
        let checks = self.check();
        let failed: Vec<String> = checks
            .0
            .iter()
            .filter(|check| !check.passed)
            .map(|check| check.name.clone())
            .collect();
        assert_eq!(
            failed.is_empty(),
            checks.verdict(self.kind).is_ok(),
            "{checks:?}"
        );
        failed
    }

    fn but(&self, change: impl FnOnce(&mut Self)) -> Vec<String> {
        let mut changed = self.clone();
        change(&mut changed);
        changed.failures()
    }
}

fn failure<'a>(checks: &'a Checks, name: &str) -> Option<&'a str> {
    checks
        .0
        .iter()
        .find(|check| check.name == name && !check.passed)
        .map(|check| check.found.as_str())
}

fn sgx() -> Case {
    let mut case =
        Case::new(EvidenceKind::Sgx, "sgx_quote", 368).with_collateral("sgx_quote_collateral.json");
    case.policy.sgx.mrenclave = vec![Hex(at(&case.report, 112))];
    case.policy.sgx.tcb.states = vec![TcbState::ConfigurationAndSWHardeningNeeded];
    case.policy.sgx.tcb.advisories = advisories(&case);
    case
}

/// Those that the policy would have to accept.
fn advisories(case: &Case) -> Vec<String> {
    let checks = case.check();
    let found = failure(&checks, "advisories").unwrap_or_default();
    let (_, ids) = found.split_once(": ").unwrap_or_default();
    ids.split(", ")
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
        .collect()
}

fn tdx() -> Case {
    let case =
        Case::new(EvidenceKind::Tdx, "tdx_quote", 568).with_collateral("tdx_quote_collateral.json");
    pinned(case, 0)
}

/// `more`: bytes before the body, in a quote of version 5.
fn pinned(mut case: Case, more: usize) -> Case {
    let report = &case.report[more..];
    case.policy.tdx.attributes = vec![Hex(at(report, 168))];
    case.policy.tdx.xfam = vec![Hex(at(report, 176))];
    case.policy.tdx.mrtd = vec![Hex(at(report, 184))];
    case.policy.tdx.rtmr0 = vec![Hex(at(report, 376))];
    case.policy.tdx.rtmr1 = vec![Hex(at(report, 424))];
    case.policy.tdx.rtmr2 = vec![Hex(at(report, 472))];
    case.policy.tdx.rtmr3 = vec![Hex([9; 48]), Hex(at(report, 520))];
    case
}

fn snp() -> Case {
    let mut case =
        Case::new(EvidenceKind::SevSnp, "report_milan.hex", 0x50).with_collateral("vcek_milan.der");
    case.policy.sev_snp.measurement = vec![Hex(at(&case.report, 0x90))];
    case.policy.sev_snp.host_data = Some(vec![Hex(at(&case.report, 0xc0))]);
    case.policy.sev_snp.max_vmpl = 3;
    case.policy.sev_snp.min_tcb = Some(SnpTcb {
        bootloader: 1,
        tee: 0,
        snp: 1,
        microcode: 1,
        fmc: 0,
    });
    case
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn what_is_recorded_passes_a_policy_that_pins_it() {
    for case in [sgx(), tdx(), snp()] {
        assert_eq!(case.failures(), names(&[]), "{:#?}", case.check());
    }
}

#[test]
fn another_binding_is_refused() {
    for case in [sgx(), tdx(), snp()] {
        for position in [0, 31, 32, 63] {
            assert_eq!(
                case.but(|case| case.expected[position] ^= 1),
                names(&["report_data"]),
                "{}",
                case.kind
            );
        }
    }
}

#[test]
fn an_empty_list_allows_nothing() {
    for case in [sgx(), tdx(), snp()] {
        let collateral = case.policy.collateral.clone();
        let failed = case.but(|case| {
            case.policy = Attestation {
                collateral,
                ..Attestation::default()
            };
        });
        let code = match case.kind {
            EvidenceKind::Sgx => names(&["tcb", "advisories", "code"]),
            EvidenceKind::Tdx => names(&[
                "attributes",
                "xfam",
                "mrtd",
                "rtmr0",
                "rtmr1",
                "rtmr2",
                "rtmr3",
            ]),
            _ => names(&["tcb", "measurement"]),
        };
        assert_eq!(
            failed
                .iter()
                .filter(|name| *name != "vmpl" && *name != "host_data")
                .cloned()
                .collect::<Vec<_>>(),
            code
        );
    }
}

#[test]
fn sgx_enclaves_are_known_by_measurement_or_signer() {
    let case = sgx();
    let signer = Signer {
        mrsigner: Hex(at(&case.report, 176)),
        product: u16::from_le_bytes(at(&case.report, 304)),
        min_svn: u16::from_le_bytes(at(&case.report, 306)),
    };
    let by = |change: &dyn Fn(&mut Signer)| {
        case.but(|case| {
            let mut signer = signer.clone();
            change(&mut signer);
            case.policy.sgx.mrenclave.clear();
            case.policy.sgx.signers = vec![signer];
        })
    };
    assert_eq!(by(&|_| ()), names(&[]));
    assert_eq!(by(&|signer| signer.product += 1), names(&["code"]));
    assert_eq!(by(&|signer| signer.min_svn += 1), names(&["code"]));
    assert_eq!(by(&|signer| signer.mrsigner.0[0] ^= 1), names(&["code"]));
    assert_eq!(
        case.but(|case| case.policy.sgx.mrenclave[0].0[31] ^= 1),
        names(&["code"])
    );
}

#[test]
fn a_debug_bit_is_seen_and_unsigned() {
    let sgx = sgx();
    assert_eq!(
        sgx.but(|case| case.report[48 + 48] |= 2),
        names(&["signature", "debug"])
    );
    assert_eq!(
        sgx.but(|case| case.report[48 + 48] &= !1),
        names(&["signature", "debug"])
    );
    assert_eq!(
        tdx().but(|case| case.report[168] |= 1),
        names(&["signature", "debug", "attributes"])
    );
    assert_eq!(
        snp().but(|case| case.report[0x0a] |= 8),
        names(&["signature", "debug"])
    );
}

#[test]
fn states_and_advisories_must_be_accepted() {
    let case = sgx();
    assert_eq!(
        case.but(|case| case.policy.sgx.tcb.states = vec![TcbState::UpToDate, TcbState::OutOfDate]),
        names(&["tcb"])
    );
    let open = &case.policy.sgx.tcb.advisories;
    assert!(
        !open.is_empty(),
        "the recorded platform has open advisories"
    );
    assert_eq!(
        case.but(|case| drop(case.policy.sgx.tcb.advisories.pop())),
        names(&["advisories"])
    );
}

/// Its firmware is older than every level that Intel's list still has: no setting accepts it.
#[test]
fn an_outdated_platform_is_refused() {
    let mut case = Case::new(EvidenceKind::Tdx, "tdx_quote_outdated", 6 + 568);
    case = pinned(
        case.with_collateral("tdx_quote_outdated_collateral.json"),
        6,
    );
    let text: serde_json::Value =
        serde_json::from_slice(&vector("tdx_quote_outdated_collateral.json")).unwrap();
    let info: serde_json::Value = serde_json::from_str(text["tcb_info"].as_str().unwrap()).unwrap();
    let issued: chrono::DateTime<chrono::Utc> =
        serde_json::from_value(info["issueDate"].clone()).unwrap();
    case.now = u64::try_from(issued.timestamp()).unwrap() + 24 * 3600;
    case.policy.tdx.tcb.states = vec![TcbState::OutOfDate, TcbState::OutOfDateConfigurationNeeded];
    assert_eq!(case.failures(), names(&["signature"]));
    assert_eq!(
        failure(&case.check(), "signature"),
        Some("No matching TCB level found")
    );
}

/// Intel's list is signed: a level that is called better than it is, or not revoked, shows.
#[test]
fn changed_collateral_is_refused() {
    for (case, from, to) in [
        (sgx(), "SWHardeningNeeded", "UpToDate"),
        (sgx(), "2025", "2026"),
        (tdx(), "UpToDate", "OutOfDate"),
    ] {
        let folder = case.policy.collateral.clone().unwrap();
        let file = std::fs::read_dir(folder)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from));
        std::fs::write(&file, text.replace(from, to)).unwrap();
        assert_eq!(case.failures(), names(&["signature"]));
    }
}

#[test]
fn time_is_what_the_asker_says() {
    for (case, check) in [
        (sgx(), "signature"),
        (tdx(), "signature"),
        (snp(), "certificate"),
    ] {
        for now in [0, THEN - 12 * YEAR, THEN + 12 * YEAR, u64::MAX / 4] {
            let failed = case.but(|case| case.now = now);
            assert_eq!(
                failed.first().map(String::as_str),
                Some(check),
                "{} at {now}",
                case.kind
            );
        }
    }
    let case = sgx();
    assert_eq!(
        case.but(|case| case.policy.max_collateral_age_days = 0),
        names(&["collateral_age"])
    );
}

#[test]
fn without_its_own_collateral_nothing_passes() {
    for case in [sgx(), tdx(), snp()] {
        let name = if case.kind == EvidenceKind::SevSnp {
            "certificate"
        } else {
            "collateral"
        };
        assert_eq!(
            case.but(|case| case.policy.collateral = None),
            names(&[name])
        );
        assert_eq!(
            case.but(|case| case.policy.collateral = Some("/nowhere".into())),
            names(&[name])
        );
    }
    let (sgx, tdx) = (sgx(), tdx());
    let folder = |case: &Case| {
        std::fs::read_dir(case.policy.collateral.as_ref().unwrap())
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    };
    std::fs::copy(folder(&tdx), folder(&sgx)).unwrap();
    assert_eq!(sgx.failures(), names(&["signature"]));
    std::fs::write(folder(&sgx), b"{}").unwrap();
    assert_eq!(sgx.failures(), names(&["collateral"]));
}

#[test]
fn snp_is_pinned_in_every_part() {
    let case = snp();
    let more = |change: &dyn Fn(&mut SnpTcb)| {
        case.but(|case| change(case.policy.sev_snp.min_tcb.as_mut().unwrap()))
    };
    for change in [
        &(|tcb: &mut SnpTcb| tcb.bootloader = 255) as &dyn Fn(&mut SnpTcb),
        &|tcb| tcb.tee = 255,
        &|tcb| tcb.snp = 255,
        &|tcb| tcb.microcode = 255,
        &|tcb| tcb.fmc = 1,
    ] {
        assert_eq!(more(change), names(&["tcb"]));
    }
    assert_eq!(
        case.but(|case| case.policy.sev_snp.min_tcb = None),
        names(&["tcb"])
    );
    assert_eq!(
        case.but(|case| case.policy.sev_snp.host_data = Some(vec![Hex([7; 32])])),
        names(&["host_data"])
    );
    assert_eq!(
        case.but(|case| case.policy.sev_snp.measurement[0].0[0] ^= 1),
        names(&["measurement"])
    );
    assert!(
        case.but(|case| case.report[0x30] = 4)
            .contains(&"vmpl".to_owned())
    );
    assert!(
        case.but(|case| case.report[0x0a] |= 4)
            .contains(&"policy".to_owned())
    );
}

/// A name in the policy for each bit that matters, and nothing else meets it.
#[test]
fn snp_policy_bits_are_asked_one_by_one() {
    type Ask = fn(&mut SevSnp);
    // The bit that is looked at, and whether it must be set.
    let asked: [(u32, bool, Ask); 7] = [
        (16, false, |pins| pins.forbid_smt = true),
        (21, false, |pins| pins.forbid_cxl = true),
        (20, true, |pins| pins.require_single_socket = true),
        (22, true, |pins| pins.require_aes_256_xts = true),
        (23, true, |pins| pins.require_rapl_disabled = true),
        (24, true, |pins| pins.require_ciphertext_hiding = true),
        (25, true, |pins| pins.require_page_swap_disabled = true),
    ];
    for (bit, wanted, ask) in asked {
        let fails = |set: bool| {
            let failed = snp().but(|case| {
                let policy = u64::from_le_bytes(at(&case.report, 8));
                let policy = (policy & !(1 << bit)) | (u64::from(set) << bit);
                case.report[8..16].copy_from_slice(&policy.to_le_bytes());
                ask(&mut case.policy.sev_snp);
            });
            failed.contains(&"policy".to_owned())
        };
        assert!(!fails(wanted), "bit {bit}");
        assert!(fails(!wanted), "bit {bit}");
    }
}

/// A key that was stolen from one platform is worth nothing where others are named.
#[test]
fn platforms_can_be_named() {
    let chip = Hex(at(&snp().report, 0x1a0));
    let named = |chips| snp().but(|case| case.policy.sev_snp.chips = Some(chips));
    assert_eq!(named(vec![Hex([1; 64]), chip]), names(&[]));
    assert_eq!(named(vec![Hex([1; 64])]), names(&["chip"]));
    assert_eq!(named(vec![]), names(&["chip"]));
    for case in [sgx(), tdx()] {
        let model = {
            let checks = case.check();
            let found = checks.0.iter().find(|check| check.name == "collateral");
            let name = found.unwrap().found.clone();
            let (_, model) = name.trim_end_matches(".json").split_once('-').unwrap();
            Hex(hex::decode(model).unwrap().try_into().unwrap())
        };
        let named = |models: Vec<Hex<6>>| {
            case.but(|case| match case.kind {
                EvidenceKind::Sgx => case.policy.sgx.fmspc = Some(models),
                _ => case.policy.tdx.fmspc = Some(models),
            })
        };
        assert_eq!(named(vec![Hex([1; 6]), model]), names(&[]));
        assert_eq!(named(vec![Hex([1; 6])]), names(&["platform"]));
        assert_eq!(named(vec![]), names(&["platform"]));
    }
}

#[test]
fn snp_takes_the_hosts_certificate_if_it_is_the_chips() {
    let case = snp();
    let table = |certificate: &[u8], length: usize| {
        let mut table = hex::decode("63da758de6644564adc5f4b93be8accd").unwrap();
        table.extend_from_slice(&48_u32.to_le_bytes());
        table.extend_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
        table.extend_from_slice(&[0; 24]);
        table.extend_from_slice(certificate);
        table
    };
    let vcek = vector("vcek_milan.der");
    let with = |table: Vec<u8>| {
        case.but(|case| {
            case.policy.collateral = None;
            case.report.extend_from_slice(&table);
        })
    };
    assert_eq!(with(table(&vcek, vcek.len())), names(&[]));
    assert_eq!(with(table(&vcek, vcek.len() + 1)), names(&["certificate"]));
    assert_eq!(
        with(table(&vcek, usize::try_from(u32::MAX).unwrap())),
        names(&["certificate"])
    );
    for position in 0..vcek.len() {
        let mut other = vcek.clone();
        other[position] ^= 0x10;
        let failed = with(table(&other, vcek.len()));
        // The algorithm's name stands once more outside of what is signed; its parameters there
        // mean nothing.
        let outside = (771..843).contains(&position);
        assert!(
            !failed.is_empty() || outside,
            "byte {position} of the certificate"
        );
    }
}

#[test]
fn no_cut_report_passes() {
    for case in [sgx(), tdx(), snp()] {
        // Zeros that fill up a buffer belong to no quote.
        let end = case.report.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let end = if case.kind == EvidenceKind::SevSnp {
            case.report.len()
        } else {
            end
        };
        for length in 0..end {
            let mut cut = case.clone();
            cut.report.truncate(length);
            assert!(!cut.passes(), "{} of {length} bytes", case.kind);
        }
        assert!(!case.but(|case| case.report.push(1)).is_empty());
    }
}

/// What is signed, and the signatures, cannot be changed in any bit. What is not, certificates as
/// text and lengths, may be written in more than one way; then all checks still find the same.
#[test]
fn no_flipped_bit_changes_what_is_found() {
    for case in [sgx(), tdx(), snp()] {
        let whole = case.check();
        let mut elsewhere = 0;
        for position in 0..case.report.len() {
            for bit in [position % 8, (position + 5) % 8] {
                if position > 1200 && (position + bit) % 7 != 0 {
                    continue;
                }
                let mut flipped = case.clone();
                flipped.report[position] ^= 1 << bit;
                let found = flipped.check();
                if found.verdict(case.kind).is_ok() {
                    assert_eq!(found, whole, "{} byte {position}", case.kind);
                    let signed = if case.kind == EvidenceKind::Sgx {
                        432
                    } else {
                        632
                    };
                    let signatures = signed + 4..signed + 4 + 128;
                    assert!(
                        position >= signed && !signatures.contains(&position),
                        "{} byte {position}",
                        case.kind
                    );
                    elsewhere += 1;
                }
            }
        }
        println!("{}: {elsewhere} flips in unsigned places", case.kind);
        if case.kind == EvidenceKind::SevSnp {
            assert_eq!(elsewhere, 0);
        }
    }
}

/// Bytes at random places, pieces of one report in another: nothing panics and nothing passes.
#[test]
fn no_made_up_report_passes() {
    let cases = [sgx(), tdx(), snp()];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    };
    for round in 0..3000 {
        let case = &cases[round % 3];
        let donor = &cases[random(3)].report;
        let mut made = case.clone();
        // Whatever else changes, something that is signed does.
        let signed = random(600) + 24;
        made.report[signed] =
            made.report[signed].wrapping_add(1 + u8::try_from(random(255)).unwrap());
        for _ in 0..random(4) {
            let from = random(donor.len() - 8);
            let piece = donor[from..(from + 1 + random(64)).min(donor.len())].to_vec();
            let to = 700 + random(made.report.len() - 700);
            let end = (to + piece.len()).min(made.report.len());
            made.report.splice(to..end, piece);
        }
        assert!(!made.passes(), "round {round}");
        for kind in EvidenceKind::ALL {
            let checks = check(kind, &made.policy, &made.report, &made.expected, made.now);
            assert!(checks.verdict(kind).is_err(), "round {round} as {kind}");
        }
    }
}
