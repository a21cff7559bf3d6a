//! `coffer init`

use coffer_catalog::policy;
use coffer_custody::Keyring;

use crate::{
    args::Init,
    failure::Failure,
    site::{self, Site},
};

pub(crate) fn run(site: &Site, args: &Init) -> Result<(), Failure> {
    let config_dir = site.config_dir()?;
    config_dir.create()?;
    let keyring = if args.keep && config_dir.keyring().exists() {
        None
    } else {
        if config_dir.keyring().exists() {
            return Err(coffer_custody::KeyringError::Exists(config_dir.keyring()).into());
        }
        let passphrase = match site.given_passphrase()? {
            Some(passphrase) => passphrase,
            None => site::prompt_new()?,
        };
        let keyring = Keyring::create(&config_dir.keyring(), &passphrase)?;
        println!("keyring: {}", config_dir.keyring().display());
        Some(keyring)
    };
    if config_dir.policy().exists() {
        if keyring.is_some() {
            eprintln!(
                "There is a policy already; nothing uses it before you sign it: coffer policy sign"
            );
        }
    } else {
        let keyring = match keyring {
            Some(keyring) => keyring,
            None => site.keyring()?,
        };
        policy::create(&config_dir, &keyring)?;
        println!("policy: {}", config_dir.policy().display());
    }
    eprintln!(
        "Keep a copy of the keyring and of its passphrase: without both, no sealed table can be \
            read again."
    );
    Ok(())
}
