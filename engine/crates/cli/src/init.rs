//! `coffer init`

use coffer_keys::{Keyring, Policy};

use crate::{args::Init, failure::Failure, site, site::Site};

pub(crate) fn run(site: &Site, args: &Init) -> Result<(), Failure> {
    let home = site.home()?;
    home.create()?;
    if !(args.keep && home.keyring().exists()) {
        if home.keyring().exists() {
            return Err(coffer_keys::KeyringError::Exists(home.keyring()).into());
        }
        let passphrase = match site.given_passphrase()? {
            Some(passphrase) => passphrase,
            None => site::prompt_new()?,
        };
        Keyring::create(&home.keyring(), &passphrase)?;
        println!("keyring: {}", home.keyring().display());
    }
    if !home.policy().exists() {
        Policy::create(&home.policy())?;
        println!("policy: {}", home.policy().display());
    }
    eprintln!("Keep a copy of the keyring and of its passphrase: without both, no sealed table can be read again.");
    Ok(())
}
