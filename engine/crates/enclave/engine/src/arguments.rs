//! The program's arguments. Read by hand: a library for command lines would be the largest part of
//! what an enclave runs and does not need.

use std::{ffi::OsString, path::PathBuf};

use coffer_engine::size::MemorySize;
use coffer_process::address::Address;
use coffer_protocol::evidence::{EvidenceKind, EvidenceKinds};
use thiserror::Error;

pub(crate) const USAGE: &str = "\
Runs plan fragments over sealed data, with keys that the data's owner releases to it

Usage: coffer-engine --listen ADDRESS --spill-dir FOLDER --evidence KIND [--memory SIZE] \
[--lifeline stdin] [--stop-at ADDRESS] [--files own|executor]

  --listen ADDRESS    unix:PATH, tcp:HOST:PORT (loopback; port 0 lets the system choose), or
                      vsock:any:PORT in a virtual machine
  --memory SIZE       memory for the tasks' data, for example 512MiB or 2GiB [default: 2GiB]
  --spill-dir FOLDER  folder for sealed spill files; the engine makes its own in it
  --evidence KIND     what the engine proves its identity with: sgx, tdx, sev-snp, tpm; \
  `simulated` is none at all, for
                      development, and refused by every policy that does not name it; `auto` is \
                      what the machine has of
                      sgx, tdx and sev-snp, else simulated; several at once: tdx+tpm
  --lifeline stdin    end when standard input ends
  --stop-at ADDRESS   whoever connects there asks the engine to end when its tasks have; for a \
  virtual machine,
                      whose host cannot send it a signal
  --files WHERE       `own`: tables' local paths are those of this machine; `executor`: the \
  executor's, which
                      is asked for them, as it is for those of URLs [default: own]
  --help, --version";

const DEFAULT_MEMORY: usize = 2 << 30;

/// What the program is to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Run(Arguments),
    Help,
    Version,
}

/// How it is to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) listen: Address,
    /// Bytes.
    pub(crate) memory: usize,
    pub(crate) spill_dir: PathBuf,
    /// None: what the machine has.
    pub(crate) evidence: Option<EvidenceKinds>,
    /// End with standard input.
    pub(crate) lifeline: bool,
    pub(crate) stop_at: Option<Address>,
    /// Local paths are the executor's.
    pub(crate) executors_files: bool,
}

/// Why the arguments are not understood.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum ArgumentError {
    #[error("there is no argument {0:?}")]
    Unknown(OsString),
    #[error("{0} is given twice")]
    Twice(&'static str),
    #[error("{0} needs a value")]
    NoValue(&'static str),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{name} {value:?}: {why}")]
    Value {
        name: &'static str,
        value: OsString,
        why: String,
    },
}

const NAMES: [&str; 7] = [
    "--listen",
    "--memory",
    "--spill-dir",
    "--evidence",
    "--lifeline",
    "--stop-at",
    "--files",
];

/// Understands both `--name value` and `--name=value`.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Request, ArgumentError> {
    let mut given: [Option<OsString>; NAMES.len()] = Default::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        match text {
            "-h" | "--help" => return Ok(Request::Help),
            "-V" | "--version" => return Ok(Request::Version),
            _ => {}
        }
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (text, None),
        };
        let known = NAMES
            .iter()
            .zip(&mut given)
            .find(|(known, _)| **known == name);
        let Some((name, position)) = known else {
            return Err(ArgumentError::Unknown(argument));
        };
        let value = inline
            .or_else(|| arguments.next())
            .ok_or(ArgumentError::NoValue(name))?;
        if position.replace(value).is_some() {
            return Err(ArgumentError::Twice(name));
        }
    }
    let [
        listen,
        memory,
        spill_dir,
        evidence,
        lifeline,
        stop_at,
        files,
    ] = given;
    Ok(Request::Run(Arguments {
        listen: valued("--listen", listen)?.ok_or(ArgumentError::Missing("--listen"))?,
        memory: valued("--memory", memory)?.map_or(DEFAULT_MEMORY, MemorySize::bytes),
        spill_dir: spill_dir
            .ok_or(ArgumentError::Missing("--spill-dir"))?
            .into(),
        evidence: kinds(evidence.ok_or(ArgumentError::Missing("--evidence"))?)?,
        lifeline: named("--lifeline", lifeline, &[("stdin", true)])?.unwrap_or(false),
        stop_at: valued("--stop-at", stop_at)?,
        executors_files: named("--files", files, &[("own", false), ("executor", true)])?
            .unwrap_or(false),
    }))
}

fn valued<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &'static str,
    value: Option<OsString>,
) -> Result<Option<T>, ArgumentError> {
    let Some(value) = value else { return Ok(None) };
    let parsed = match value.to_str() {
        Some(text) => text.parse().map_err(|error: T::Err| error.to_string()),
        None => Err("it is not text".to_owned()),
    };
    parsed
        .map(Some)
        .map_err(|why| ArgumentError::Value { name, value, why })
}

/// The kinds of evidence; none where the machine is to say.
fn kinds(value: OsString) -> Result<Option<EvidenceKinds>, ArgumentError> {
    match value.to_str().unwrap_or_default() {
        "auto" => Ok(None),
        text => text.parse().map(Some).map_err(|error| {
            let all = EvidenceKind::ALL.map(EvidenceKind::name).join(", ");
            ArgumentError::Value {
                name: "--evidence",
                why: format!("{error}; possible: auto, {all}, and several with `+` between them"),
                value,
            }
        }),
    }
}

/// One of a few words.
fn named<T: Copy>(
    name: &'static str,
    value: Option<OsString>,
    words: &[(&str, T)],
) -> Result<Option<T>, ArgumentError> {
    let Some(value) = value else { return Ok(None) };
    match words.iter().find(|(word, _)| *word == value) {
        Some((_, meaning)) => Ok(Some(*meaning)),
        None => {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let why = format!("possible: {}", words.join(", "));
            Err(ArgumentError::Value { name, value, why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDED: [&str; 6] = [
        "--listen",
        "tcp:127.0.0.1:0",
        "--spill-dir",
        "/spill",
        "--evidence",
        EVIDENCE,
    ];
    const EVIDENCE: &str = "simulated";

    fn read(arguments: &[&str]) -> Result<Request, String> {
        parse(arguments.iter().map(OsString::from)).map_err(|error| error.to_string())
    }

    fn with(more: &[&str]) -> Result<Request, String> {
        read(&[&NEEDED, more].concat())
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let Ok(Request::Run(arguments)) = with(&[]) else {
            panic!()
        };
        assert_eq!((arguments.memory, arguments.lifeline), (2 << 30, false));
        assert_eq!(arguments.spill_dir, PathBuf::from("/spill"));
        let Ok(Request::Run(arguments)) = with(&["--memory=64MiB", "--lifeline", "stdin"]) else {
            panic!()
        };
        assert_eq!((arguments.memory, arguments.lifeline), (64 << 20, true));
        assert_eq!(
            (arguments.stop_at, arguments.executors_files),
            (None, false)
        );
        let machine = ["--stop-at", "vsock:any:5001", "--files=executor"];
        let Ok(Request::Run(arguments)) = with(&machine) else {
            panic!()
        };
        assert_eq!(arguments.stop_at, "vsock:any:5001".parse().ok());
        assert!(arguments.executors_files);
        let two = [&NEEDED[..5], &["tpm+tdx"]].concat();
        let Ok(Request::Run(arguments)) = read(&two) else {
            panic!()
        };
        assert_eq!(arguments.evidence.unwrap().to_string(), "tdx+tpm");
        assert_eq!(with(&["--help"]), Ok(Request::Help));
        assert_eq!(read(&["-V"]), Ok(Request::Version));
    }

    #[test]
    fn each_mistake_is_named() {
        for (arguments, words) in [
            (&["--memory"][..], "--memory needs a value"),
            (&["--memory", "lots"], "a size is"),
            (
                &["--memory", "1MiB", "--memory", "2MiB"],
                "--memory is given twice",
            ),
            (&["--lifeline", "rope"], "possible: stdin"),
            (&["--files", "none"], "possible: own, executor"),
            (&["--evidence", "none"], "--evidence is given twice"),
            (&["--verbose"], "there is no argument \"--verbose\""),
            (&["more"], "there is no argument"),
        ] {
            assert!(
                with(arguments).unwrap_err().contains(words),
                "{arguments:?}"
            );
        }
        for (kinds, words) in [
            (
                "auto+tpm",
                "no evidence kind \"auto\"; possible: auto, simulated, sgx",
            ),
            ("tpm+tpm", "tpm evidence is given twice"),
        ] {
            let error = read(&[&NEEDED[..5], &[kinds]].concat()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(read(&NEEDED[2..]), Err("--listen is missing".to_owned()));
        assert_eq!(read(&NEEDED[..4]), Err("--evidence is missing".to_owned()));
        assert!(
            read(&["--listen", "nowhere"])
                .unwrap_err()
                .contains("--listen \"nowhere\":")
        );
    }
}
