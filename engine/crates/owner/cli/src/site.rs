//! The client site as a command sees it: config directory, keyring, policy, and where the
//! passphrase comes from.

use std::{
    cell::Cell,
    io::IsTerminal,
    path::{Path, PathBuf},
};

use coffer_audit::Event;
use coffer_catalog::{Target, VerifiedManifest, open_table};
use coffer_custody::{
    ConfigDir, Draft, Keyring, OldName, Passphrase, PassphraseError, Policy, Vault,
};

use crate::{args::Global, audit, failure::Failure, store};

pub(crate) struct Site {
    config_dir: Option<PathBuf>,
    passphrase_file: Option<PathBuf>,
    /// What to be said once, when the folder is first looked for.
    old_name: Cell<Option<OldName>>,
}

impl Site {
    pub(crate) fn new(global: &Global) -> Self {
        let home = global.home.as_deref();
        let config_dir = global.config_dir.as_deref().or(home);
        Self {
            old_name: Cell::new(ConfigDir::old_name(config_dir, home)),
            config_dir: config_dir.map(Path::to_path_buf),
            passphrase_file: global.passphrase_file.as_deref().map(Path::to_path_buf),
        }
    }

    pub(crate) fn config_dir(&self) -> Result<ConfigDir, Failure> {
        if let Some(old) = self.old_name.take() {
            eprintln!("warning: {old}");
        }
        let folder = ConfigDir::locate(self.config_dir.as_deref())?;
        Ok(folder.reaching(store::reach()))
    }

    /// The config directory that was named on the command line.
    pub(crate) fn named_config_dir(&self) -> Option<&Path> {
        self.config_dir.as_deref()
    }

    pub(crate) fn passphrase_file(&self) -> Option<&Path> {
        self.passphrase_file.as_deref()
    }

    /// From the file, the environment, or a prompt.
    pub(crate) fn passphrase(&self) -> Result<Passphrase, Failure> {
        match self.given_passphrase()? {
            Some(passphrase) => Ok(passphrase),
            None => prompt("Passphrase of the keyring: "),
        }
    }

    /// From the file or the environment.
    pub(crate) fn given_passphrase(&self) -> Result<Option<Passphrase>, Failure> {
        if let Some(file) = &self.passphrase_file {
            return Ok(Some(Passphrase::from_file(file)?));
        }
        match Passphrase::from_env() {
            Ok(passphrase) => Ok(Some(passphrase)),
            Err(PassphraseError::NotSet) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn keyring(&self) -> Result<Keyring, Failure> {
        let path = self.config_dir()?.keyring();
        // Say that there is none before asking for its passphrase.
        if !path.exists() {
            return Err(coffer_custody::KeyringError::NotFound(path).into());
        }
        Ok(Keyring::open(&path, &self.passphrase()?)?)
    }

    /// The policy, if its owner signed it, and the keyring joined with its masters.
    pub(crate) fn open_config_dir(&self) -> Result<(Policy, Vault), Failure> {
        // Say what is wrong with the policy before asking for a passphrase.
        self.draft()?;
        let keyring = self.keyring()?;
        let policy = coffer_catalog::policy::open(&self.config_dir()?, &keyring)?;
        let masters = coffer_kms::of(&policy);
        Ok((policy, Vault::new(keyring, masters)))
    }

    /// What the policy's file says, whoever wrote it: for reports, which decide nothing.
    pub(crate) fn draft(&self) -> Result<Draft, Failure> {
        Ok(Draft::load(&self.config_dir()?.policy())?)
    }

    /// As [`Site::open`], for a command that gives out values or keys of these columns (none named:
    /// all): the audit log has it first, unless `check` refuses the table.
    pub(crate) fn open_in_clear(
        &self,
        target: &Target,
        action: &str,
        columns: &[String],
        check: impl FnOnce(&VerifiedManifest) -> Result<(), Failure>,
    ) -> Result<VerifiedManifest, Failure> {
        let (policy, vault) = self.open_config_dir()?;
        let table = open_table(&self.config_dir()?, &vault, &policy, target)?;
        check(&table)?;
        audit::note(
            self,
            vault.keyring(),
            Event::granted(action).table(audit::used(&table, columns)),
        )?;
        Ok(table)
    }

    pub(crate) fn open(&self, target: &Target) -> Result<VerifiedManifest, Failure> {
        let (policy, vault) = self.open_config_dir()?;
        Ok(open_table(&self.config_dir()?, &vault, &policy, target)?)
    }
}

/// A table as it was typed: a path if it looks like one, else a name or a folder here, as the
/// register has it.
pub(crate) fn target(typed: &Path) -> Target {
    Target::typed(&typed.to_string_lossy())
}

/// The name of a table that was given none: its folder's. `what` and `option` are how the two are
/// called where they are typed.
pub(crate) fn name_of(folder: &Path, what: &str, option: &str) -> Result<String, Failure> {
    let name = folder.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!("{what} has no name to take for the table"))
            .hint(format!("name it with {option}"))
    })
}

/// Asks a person. Without a terminal there is nobody to ask.
pub(crate) fn prompt(words: &str) -> Result<Passphrase, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(PassphraseError::NotSet.into());
    }
    let typed = rpassword::prompt_password(words).map_err(|error| {
        Failure::io("read the passphrase from", Path::new("the terminal"), error)
    })?;
    Ok(Passphrase::new(typed)?)
}

/// Asks twice.
pub(crate) fn prompt_new() -> Result<Passphrase, Failure> {
    let first = prompt("New passphrase: ")?;
    let second = prompt("The same again: ")?;
    if first.expose() != second.expose() {
        return Err(Failure::usage("the two passphrases differ"));
    }
    Ok(first)
}
