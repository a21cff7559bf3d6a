//! Evidence by a program. In a process of its own: a test that starts programs holds others'
//! sockets open for a moment.

use std::os::unix::fs::PermissionsExt;

use coffer_protocol::EvidenceKind;
use coffer_release::issue::{Interfaces, issuers};

#[test]
fn the_tpms_program_gets_report_data_and_gives_evidence() {
    let folder = tempfile::tempdir().unwrap();
    for (script, outcome) in [
        (
            "printf quote:; cat",
            Some([b"quote:".as_slice(), &[9; 32]].concat()),
        ),
        ("cat >/dev/null", None),
        ("cat; exit 1", None),
    ] {
        let program = folder.path().join(script.len().to_string());
        std::fs::write(
            &program,
            format!("#!/bin/sh\n[ \"$1\" = quote ] || exit 1\n{script}\n"),
        )
        .unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let interfaces = Interfaces {
            tpm_program: program,
            ..Interfaces::default()
        };
        let tpm = issuers(Some(&EvidenceKind::Tpm.into()), &interfaces).unwrap();
        assert_eq!(tpm[0].report(&[9; 32]).ok(), outcome, "{script}");
    }
}
