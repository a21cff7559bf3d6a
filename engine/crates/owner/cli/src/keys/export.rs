//! `coffer keys export | import | recover`

use std::{
    fs::{self, OpenOptions},
    io::{Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use coffer_audit::Event;
use coffer_catalog::policy;
use coffer_custody::{
    ExportedKeys, Keyring, KeyringError, Passphrase, PassphraseError,
    recovery::{RecoveryError, Scheme, Share, join, split},
};
use serde_json::json;
use zeroize::Zeroizing;

use super::{
    args::{Export, Import},
    list::{master_json, master_rows},
};
use crate::{
    audit,
    failure::{Exit, Failure},
    local_path::LocalPath,
    output,
    site::{self, Site},
};

const EXPORT_PASSPHRASE: &str = "COFFER_EXPORT_PASSPHRASE";
/// Bytes of a share's file at most.
const MAX_SHARE: u64 = 4 << 20;

pub(super) fn export(site: &Site, args: &Export) -> Result<(), Failure> {
    if args.output.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!(
            "{} exists already",
            args.output.display()
        )));
    }
    let keyring = site.keyring()?;
    if let Some(scheme) = args.shares {
        let event = Event::granted("keys export")
            .detail("what", "the whole keyring")
            .detail(
                "shares",
                format!("{}-of-{}", scheme.threshold(), scheme.count()),
            );
        audit::note(site, &keyring, event)?;
        return shares(&keyring, scheme, &args.output, args.json);
    }
    let passphrase = match given(args.export_passphrase_file.as_deref())? {
        Some(passphrase) => passphrase,
        None => site::prompt_new()?,
    };
    let what = match args.masters.is_empty() {
        true => "the whole keyring".to_owned(),
        false => args.masters.join(", "),
    };
    audit::note(
        site,
        &keyring,
        Event::granted("keys export").detail("what", what),
    )?;
    let masters = keyring.export(&args.output, &passphrase, &args.masters)?;
    if args.json {
        output::json(&json!({
            "output": &*args.output, "whole": args.masters.is_empty(),
            "masters": masters.iter().map(master_json).collect::<Vec<_>>(),
        }));
    } else {
        print!("{}", output::table(&master_rows(&masters)));
    }
    eprintln!(
        "Whoever has this file and its passphrase has these keys. The register is not in it: back \
            that up as it is."
    );
    Ok(())
}

/// A folder of one file for each share. They are read back and joined before anybody relies on
/// them.
fn shares(keyring: &Keyring, scheme: Scheme, folder: &Path, as_json: bool) -> Result<(), Failure> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(folder)
        .map_err(|error| Failure::io("create", folder, error))?;
    let mut paths = Vec::new();
    for share in split(keyring, scheme)? {
        let path = folder.join(format!("share-{}.txt", share.number()));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| {
                file.write_all(share.to_text().as_bytes())
                    .and_then(|()| file.sync_all())
            })
            .map_err(|error| Failure::io("write", &path, error))?;
        paths.push(path);
    }
    let read = paths
        .iter()
        .map(|path| read_share(path))
        .collect::<Result<Vec<_>, _>>()?;
    let joined = join(
        read.get(..usize::from(scheme.threshold()))
            .unwrap_or_default(),
    )?;
    if !keyring.is_whole_in(&joined)? {
        return Err(Failure::new(
            Exit::Check,
            "the shares that were written do not give the keyring back",
        )
        .hint("was the keyring changed at the same moment? remove them, and run it again"));
    }
    let set = read
        .first()
        .map(|share| share.set().to_string())
        .unwrap_or_default();
    if as_json {
        output::json(&json!({
            "set": set, "threshold": scheme.threshold(), "count": scheme.count(), "shares": paths,
        }));
    } else {
        for path in &paths {
            println!("{}", path.display());
        }
    }
    eprintln!(
        "Any {} of these {} give the keyring back as it is now, without its passphrase: give them \
            to different people, and",
        scheme.threshold(),
        scheme.count()
    );
    eprintln!(
        "remove the files. Make new ones after each create and rotate. The register is not in \
            them: back that up as it is."
    );
    Ok(())
}

pub(super) fn import(site: &Site, args: &Import) -> Result<(), Failure> {
    let passphrase = match given(args.export_passphrase_file.as_deref())? {
        Some(passphrase) => passphrase,
        None => site::prompt("Passphrase of the export: ")?,
    };
    let exported = ExportedKeys::open(&args.file, &passphrase)?;
    let config_dir = site.config_dir()?;
    if !config_dir.keyring().exists() {
        if args.rename.is_some() {
            return Err(Failure::usage(
                "--as is for a master, and a whole keyring is made here",
            ));
        }
        return make(site, exported, "keys import", args.json);
    }
    let masters = exported.masters()?;
    if args.rename.is_some() && masters.len() != 1 {
        return Err(Failure::usage(format!(
            "--as is for one master, and the file has {}",
            masters.len()
        )));
    }
    let keyring = site.keyring()?;
    let names: Vec<&str> = masters.iter().map(|master| master.name.as_str()).collect();
    let mut event = Event::granted("keys import").detail("masters", names.join(", "));
    if let Some(name) = &args.rename {
        event = event.detail("as", name);
    }
    audit::note(site, &keyring, event)?;
    let imported = keyring.import(&exported, args.rename.as_deref())?;
    if args.json {
        let rows = imported.iter().map(|one| {
            let mut row = master_json(&one.master);
            if let Some(row) = row.as_object_mut() {
                row.insert("changed".to_owned(), json!(one.changed));
            }
            row
        });
        output::json(&json!({ "masters": rows.collect::<Vec<_>>() }));
    } else {
        for one in &imported {
            let what = if one.changed {
                "imported"
            } else {
                "there already"
            };
            println!("{} {what}", one.master.name);
        }
    }
    Ok(())
}

pub(super) fn recover(site: &Site, files: &[LocalPath]) -> Result<(), Failure> {
    let path = site.config_dir()?.keyring();
    if path.exists() {
        return Err(KeyringError::Exists(path).into());
    }
    let shares = files
        .iter()
        .map(|file| read_share(file))
        .collect::<Result<Vec<_>, _>>()?;
    make(site, join(&shares)?, "keys recover", false)
}

/// A new keyring, of an export or shares, under the config directory's passphrase. The audit log is
/// told where its register is here: one that is begun without it would not fit the backup of the
/// register that is to come.
fn make(site: &Site, exported: ExportedKeys, action: &str, as_json: bool) -> Result<(), Failure> {
    let config_dir = site.config_dir()?;
    config_dir.create()?;
    let passphrase = match site.given_passphrase()? {
        Some(passphrase) => passphrase,
        None => site::prompt_new()?,
    };
    let keyring = exported.create_keyring(&config_dir.keyring(), &passphrase)?;
    if config_dir.register().exists()
        && let Err(failure) = audit::note(
            site,
            &keyring,
            Event::granted(action).detail("what", "the whole keyring"),
        )
    {
        fs::remove_file(config_dir.keyring())
            .map_err(|error| Failure::io("remove", &config_dir.keyring(), error))?;
        return Err(failure);
    }
    let registered = config_dir.register().exists();
    if !policy::create(&config_dir, &keyring)? && policy::open(&config_dir, &keyring).is_err() {
        eprintln!(
            "Nothing uses the policy that lies there before you have looked at it: coffer policy \
                sign"
        );
    }
    let masters = keyring.masters()?;
    if as_json {
        output::json(&json!({ "masters": masters.iter().map(master_json).collect::<Vec<_>>() }));
    } else {
        println!("keyring: {}", config_dir.keyring().display());
        print!("{}", output::table(&master_rows(&masters)));
    }
    if !registered {
        eprintln!(
            "There was no register at {}: put its backup there, or no table is known.",
            config_dir.register().display()
        );
    }
    Ok(())
}

fn read_share(path: &Path) -> Result<Share, Failure> {
    let failed = |error| Failure::io("read", path, error);
    let file = fs::File::open(path).map_err(failed)?;
    let mut text = Zeroizing::new(String::with_capacity(64 << 10));
    file.take(MAX_SHARE)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Share::from_text(&text).map_err(|error| {
        let failure = Failure::new(Exit::Check, format!("{}: {error}", path.display()));
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

/// From the file or the environment.
fn given(file: Option<&Path>) -> Result<Option<Passphrase>, Failure> {
    Ok(match (file, std::env::var(EXPORT_PASSPHRASE)) {
        (Some(file), _) => Some(Passphrase::from_file(file)?),
        (None, Ok(text)) => Some(Passphrase::new(text)?),
        (None, Err(std::env::VarError::NotPresent)) => None,
        (None, Err(std::env::VarError::NotUnicode(_))) => return Err(PassphraseError::Empty.into()),
    })
}

impl From<RecoveryError> for Failure {
    fn from(error: RecoveryError) -> Self {
        let failure = Failure::new(Exit::Check, error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
