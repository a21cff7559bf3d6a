//! `coffer verify --release`: holds the files of a release, and the programs that are installed
//! here, against what the release says.

use std::{
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use coffer_custody::{File, RELEASE_TYPE, Release};
use coffer_log::{Entry, LogError, Proof, Trust};
use coffer_sealing::sha256;
use coffer_statement::Envelope;
use serde_json::json;

use super::ticks::Ticks;
use crate::{
    args::Verify,
    failure::{Exit, Failure},
    output,
};

const RELEASE: &str = "release.json";
const SIGNED: &str = "release.dsse.json";
const LOGGED: &str = "release.tlog-proof";

pub(super) fn run(folder: &Path, args: &Verify) -> Result<(), Failure> {
    let path = folder.join(RELEASE);
    let bytes = fs::read(&path).map_err(|error| Failure::io("read", &path, error))?;
    let release = Release::parse(&bytes)
        .map_err(|error| Failure::new(Exit::Check, format!("{}: {error}", path.display())))?;
    let mut ticks = Ticks::default();
    signature(&mut ticks, folder, &bytes, args)?;
    log(&mut ticks, folder, &bytes, args)?;
    for (name, file) in &release.files {
        // A path that leads out of the folder is no file of it.
        let inside = Path::new(name)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        let (passed, found) = match inside {
            true => holds(&folder.join(name), file)?,
            false => (false, "is no path in the release's folder".to_owned()),
        };
        ticks.note("file", passed, format!("{name} {found}"));
    }
    let mut there = BTreeSet::new();
    list(folder, folder, &mut there).map_err(|error| Failure::io("list", folder, error))?;
    for name in &there {
        if ![RELEASE, SIGNED, LOGGED].contains(&name.as_str()) && !release.files.contains_key(name)
        {
            ticks.note("file", false, format!("{name} is not the release's"));
        }
    }
    installed(&mut ticks, &release)?;
    if args.json {
        output::json(&json!({
            "holds": ticks.holds(),
            "checks": ticks.json(),
            "release": release,
        }));
    } else {
        ticks.print();
        let commit = &release.source.commit;
        println!("  {:<10} {} of commit {commit}", "version", release.version);
        for (tool, version) in &release.toolchain {
            println!("  {:<10} {tool}: {version}", "made by");
        }
        if release.measurements.is_empty() {
            println!(
                "  {:<10} none: the release has no image for a TEE",
                "measured"
            );
        }
        for (kind, values) in &release.measurements {
            for (name, value) in values {
                println!("  {:<10} {kind}: {name} {value}", "measured");
            }
        }
    }
    ticks.verdict("the release")
}

fn signature(
    ticks: &mut Ticks,
    folder: &Path,
    release: &[u8],
    args: &Verify,
) -> Result<(), Failure> {
    let path = folder.join(SIGNED);
    let signed = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Whoever names a signer wants its signature.
            let passed = args.signer.map(|_| false);
            ticks.note("signature", passed, format!("there is no {SIGNED}"));
            return Ok(());
        }
        Err(error) => return Err(Failure::io("read", &path, error)),
    };
    let Some(signer) = args.signer else {
        ticks.note(
            "signature",
            None,
            "--signer names no key to check it by".to_owned(),
        );
        return Ok(());
    };
    let opened = Envelope::parse(&signed).and_then(|signed| signed.open(RELEASE_TYPE, &signer.0));
    let (passed, found) = match opened {
        Ok(payload) if payload == release => (true, format!("by {}", hex::encode(signer.0))),
        Ok(_) => (false, format!("is of another {RELEASE}")),
        Err(error) => (false, error.to_string()),
    };
    ticks.note("signature", passed, found);
    Ok(())
}

/// Whether the release is in the log whose key is named, as enough of the witnesses saw.
fn log(ticks: &mut Ticks, folder: &Path, release: &[u8], args: &Verify) -> Result<(), Failure> {
    let path = folder.join(LOGGED);
    let proof = match fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::io("read", &path, error)),
    };
    let Some(key) = &args.log else {
        if proof.is_some() {
            let found = "--log and --witness name no keys to check it by";
            ticks.note("log", None, found.to_owned());
        }
        return Ok(());
    };
    let age = Duration::from_secs(3600).saturating_mul(args.max_age_hours);
    let trust = Trust::new(key.clone(), args.witness.clone(), args.quorum, age)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let checked = |bytes: &[u8]| -> Result<String, LogError> {
        let entry = Entry::Release(sha256(release));
        let found = trust.verify(&Proof::parse(bytes)?, &entry, SystemTime::now(), None)?;
        let (index, state) = (found.index, found.checkpoint);
        Ok(format!(
            "entry {index} of {} in {}",
            state.size, state.origin
        ))
    };
    let (passed, found) = match proof.as_deref().map(checked) {
        Some(Ok(found)) => (true, found),
        Some(Err(error)) => (false, error.to_string()),
        None => (false, format!("there is no {LOGGED}")),
    };
    ticks.note("log", passed, found);
    Ok(())
}

/// Whether a file is what the release says, and in words.
fn holds(path: &Path, file: &File) -> Result<(bool, String), Failure> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((false, "is not there".to_owned()));
        }
        Err(error) => return Err(Failure::io("read", path, error)),
    };
    let found = hex::encode(sha256(&bytes));
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok(match found == file.sha256 && size == file.size {
        true => (true, format!("has SHA-256 {found}")),
        false => (false, format!("has SHA-256 {found}, not {}", file.sha256)),
    })
}

/// The programs beside this one. What is not there is not installed, and no fault.
fn installed(ticks: &mut Ticks, release: &Release) -> Result<(), Failure> {
    let here = env::current_exe().and_then(fs::canonicalize);
    let here = here.map_err(|error| Failure::io("find", Path::new("this program"), error))?;
    let folder = here.parent().map(PathBuf::from).unwrap_or_default();
    for (name, file) in &release.programs {
        let path = folder.join(name);
        if path.exists() {
            let (passed, found) = holds(&path, file)?;
            ticks.note("installed", passed, format!("{} {found}", path.display()));
        }
    }
    Ok(())
}

/// The files under a folder, by their paths from `root`.
fn list(root: &Path, folder: &Path, into: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            list(root, &path, into)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            into.insert(name.to_string_lossy().into_owned());
        }
    }
    Ok(())
}
