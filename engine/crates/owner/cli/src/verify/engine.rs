//! `coffer verify --engine`: by hand what the client engine does before it releases a key, and no
//! key is released.

use std::{
    cell::RefCell,
    fs,
    io::{Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use coffer_custody::{
    Attestation, Challenges, Check, Checks, Policy, Verifier, attest, verifiers::Verifiers,
};
use coffer_process::vsock;
use coffer_protocol::{
    Challenge, Evidence, EvidenceError, EvidenceKind, OwnerPublicKey,
    evidence::{self, Report},
    framing::{WireError, put_message, read_message_blocking},
    wire::{Attest, EngineEvidence, Refused, TaskMessage},
};
use prost::Message;
use serde_json::json;

use crate::{
    args::Verify,
    failure::{Exit, Failure},
    output,
    site::Site,
};

/// Evidence is made for an application of this name, so it is good for no other.
const APPLICATION: &str = "coffer verify";
/// Evidence with certificates has some ten KB.
const MAX_MESSAGE: usize = 1 << 20;
/// Hardware may take a second for a quote.
const PATIENCE: Duration = Duration::from_secs(30);

/// All that was seen.
struct Seen {
    owner: OwnerPublicKey,
    challenge: Challenge,
    evidence: Evidence,
    checks: Checks,
    verdict: Result<String, EvidenceError>,
}

pub(super) fn run(site: &Site, address: &str, args: &Verify) -> Result<(), Failure> {
    let (policy, vault) = site.open_config_dir()?;
    let owner = vault.keyring().owner_public();
    let challenge = Challenges::new().draw().map_err(|error| refused(&error))?;
    let evidence = ask(address, &owner, &challenge)?;
    let seen = examine(&policy, owner, challenge, evidence);
    if let Some(folder) = &args.out {
        write(folder, &seen)?;
    }
    if args.json {
        output::json(&report(address, &seen));
    } else {
        for Check {
            name,
            passed,
            found,
        } in &seen.checks.0
        {
            println!("{} {name:<16} {found}", if *passed { "✓" } else { "✗" });
        }
    }
    match &seen.verdict {
        Ok(engine) => {
            if !args.json {
                println!(
                    "verified: engine {engine}, by {} evidence",
                    seen.evidence.kinds()
                );
            }
            Ok(())
        }
        Err(error) => Err(refused(error)),
    }
}

fn refused(error: &EvidenceError) -> Failure {
    let failure = Failure::new(Exit::Check, error.to_string());
    match error {
        // The hint would lead here.
        EvidenceError::Refused { .. } => {
            failure.hint("what must match is under [attestation] in the policy")
        }
        error => match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
    }
}

/// Keeps what the verifiers found, for a person to read.
struct Recorded(Verifiers, RefCell<Checks>);

impl Verifier for Recorded {
    fn verify(
        &self,
        kind: EvidenceKind,
        policy: &Attestation,
        report: &[u8],
        expected: &[u8; 32],
    ) -> Result<Checks, EvidenceError> {
        let checks = self.0.verify(kind, policy, report, expected)?;
        self.1.borrow_mut().0.extend(checks.0.iter().cloned());
        Ok(checks)
    }
}

/// The verdict is that of the client engine, by the same function; the list around it says how it
/// came about.
fn examine(
    policy: &Policy,
    owner: OwnerPublicKey,
    challenge: Challenge,
    evidence: Evidence,
) -> Seen {
    let recorded = Recorded(Verifiers::beside_this_program(), RefCell::default());
    let verdict = attest(
        policy,
        &owner,
        challenge.clone(),
        APPLICATION,
        &evidence,
        &recorded,
    );
    let error = verdict.as_ref().err();
    let mut checks = Checks::new();
    let build = !matches!(
        error,
        Some(
            EvidenceError::OtherProtocol { .. }
                | EvidenceError::OtherVersion { .. }
                | EvidenceError::Unsealed
        )
    );
    checks.note(
        "build",
        build,
        format!("version {}", printable(&evidence.engine_version)),
    );
    if build {
        let accepted = !matches!(
            error,
            Some(
                EvidenceError::UnknownKind(_)
                    | EvidenceError::NotAccepted(_)
                    | EvidenceError::Twice(_)
            )
        );
        let more = if accepted {
            ""
        } else {
            ", which the policy does not accept"
        };
        checks.note(
            "accepted",
            accepted,
            format!("{} evidence{more}", printable(&evidence.kinds())),
        );
        let found = recorded.1.into_inner();
        if accepted && found.0.is_empty() {
            let found = error.map_or_else(
                || "simulated: it proves nothing".to_owned(),
                ToString::to_string,
            );
            checks.note("report", error.is_none(), found);
        }
        checks.0.extend(found.0);
    }
    Seen {
        owner,
        challenge,
        evidence,
        checks,
        verdict: verdict.map(|engine| engine.engine_id()),
    }
}

/// A peer's word on a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

fn report(address: &str, seen: &Seen) -> serde_json::Value {
    json!({
        "engine": address,
        "engine_id": seen.evidence.engine_key.engine_id(),
        "kind": seen.evidence.kinds(),
        "version": seen.evidence.engine_version,
        "verified": seen.verdict.is_ok(),
        "error": seen.verdict.as_ref().err().map(EvidenceError::code),
        "checks": seen.checks,
    })
}

/// What another tool would need to check the same.
fn write(folder: &Path, seen: &Seen) -> Result<(), Failure> {
    fs::create_dir(folder).map_err(|error| Failure::io("make", folder, error))?;
    let evidence = &seen.evidence;
    let bound = |report: &Report| {
        let kind = EvidenceKind::from_name(&report.kind)?;
        let data = evidence::report_data(
            kind,
            &evidence.engine_key,
            &seen.owner,
            &seen.challenge,
            APPLICATION,
        );
        Some(hex::encode(data))
    };
    let file = |at: usize| match at {
        0 => "report.bin".to_owned(),
        at => format!("report-{}.bin", at + 1),
    };
    let (first, further) = match evidence.reports.split_first() {
        Some((first, further)) => (Some(first), further),
        None => (None, [].as_slice()),
    };
    let further: Vec<_> = (further.iter().enumerate())
        .map(|(at, report)| {
            json!({ "kind": report.kind, "report_data": bound(report), "file": file(at + 1) })
        })
        .collect();
    let about = json!({
        "protocol": evidence.protocol,
        "kind": first.map(|report| &report.kind),
        "engine_version": evidence.engine_version,
        "engine_key": hex::encode(evidence.engine_key.0),
        "owner_key": hex::encode(seen.owner.as_bytes()),
        "challenge": hex::encode(seen.challenge.as_bytes()),
        "application": APPLICATION,
        "report_data": first.map(bound),
        "further": further,
        "verified": seen.verdict.is_ok(),
        "checks": seen.checks,
    });
    let about = (
        "evidence.json".to_owned(),
        format!("{about:#}\n").into_bytes(),
    );
    let reports = evidence.reports.iter().enumerate();
    let files = reports.map(|(at, report)| (file(at), report.bytes.clone()));
    for (name, bytes) in files.chain([about]) {
        let file = folder.join(name);
        fs::write(&file, bytes).map_err(|error| Failure::io("write", &file, error))?;
    }
    Ok(())
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn connect(address: &str) -> Result<Box<dyn Stream>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Io, format!("no engine answers at {address}: {error}"))
            .hint("the engine's first line on its standard output says where it listens")
    };
    match address.split_once(':') {
        Some(("unix", path)) if !path.is_empty() => {
            let stream = UnixStream::connect(path).map_err(failed)?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
            Ok(Box::new(stream))
        }
        Some(("tcp", host)) => {
            let mut found = host.to_socket_addrs().map_err(failed)?;
            let socket = found
                .next()
                .ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
            let stream = TcpStream::connect_timeout(&socket, PATIENCE).map_err(failed)?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
            Ok(Box::new(stream))
        }
        _ => match address
            .parse()
            .ok()
            .and_then(|machine| vsock::open(&machine))
        {
            Some(opened) => {
                let stream = opened.map_err(failed)?;
                stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
                Ok(Box::new(stream))
            }
            None => Err(
                Failure::usage(format!("{address:?} is no address of an engine"))
                    .hint("use unix:PATH, tcp:HOST:PORT, vsock:CID:PORT or vsock:SOCKET:PORT"),
            ),
        },
    }
}

/// One message of the task protocol and its answer.
fn ask(address: &str, owner: &OwnerPublicKey, challenge: &Challenge) -> Result<Evidence, Failure> {
    let mut stream = connect(address)?;
    let broken = |what: &str| {
        Failure::new(
            Exit::Check,
            format!("what answers at {address} is no engine: {what}"),
        )
        .hint("name the address of coffer-engine")
    };
    let attest = Attest {
        protocol: evidence::PROTOCOL,
        owner_key: owner.as_bytes().to_vec().into(),
        challenge: challenge.as_bytes().to_vec().into(),
        application: APPLICATION.to_owned(),
    };
    let kind = |message: TaskMessage| u8::try_from(i32::from(message)).unwrap_or_default();
    let mut question = Vec::new();
    put_message(&mut question, kind(TaskMessage::Attest), &attest)
        .map_err(|error| broken(&error.to_string()))?;
    let asked = stream.write_all(&question);
    asked.map_err(|error| broken(&error.to_string()))?;
    let answer = read_message_blocking(&mut stream, MAX_MESSAGE).map_err(|error| match error {
        WireError::Empty | WireError::TooLong(_) => {
            broken("its answer has a length that no answer has")
        }
        error => broken(&error.to_string()),
    })?;
    let answer = answer.ok_or_else(|| broken("it ended the connection"))?;
    let (answered, payload) = (answer.kind, answer.payload);
    if answered == kind(TaskMessage::Refused) {
        let why = Refused::decode(payload.clone()).unwrap_or_default();
        let error = Failure::new(
            Exit::Check,
            format!(
                "the engine gives no evidence: {}",
                printable_line(&why.hint)
            ),
        );
        return Err(match why.code.as_str() {
            "other_owner" => {
                error.hint("an engine serves one owner for its life: this one serves another")
            }
            _ => error.hint("the engine's log says more"),
        });
    }
    if answered != kind(TaskMessage::Evidence) {
        return Err(broken("its answer is not evidence"));
    }
    let wire =
        EngineEvidence::decode(payload.clone()).map_err(|_| broken("its evidence is malformed"))?;
    Evidence::from_wire(wire).ok_or_else(|| broken("its key is malformed"))
}

fn printable_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}
