//! `coffer init`

use coffer_catalog::policy;
use coffer_custody::Keyring;

use crate::{
    args::Init,
    failure::Failure,
    site::{self, Site},
};

pub(crate) fn run(site: &Site, args: &Init) -> Result<(), Failure> {
    let home = site.home()?;
    home.create()?;
    let keyring = if args.keep && home.keyring().exists() {
        None
    } else {
        if home.keyring().exists() {
            return Err(coffer_custody::KeyringError::Exists(home.keyring()).into());
        }
        let passphrase = match site.given_passphrase()? {
            Some(passphrase) => passphrase,
            None => site::prompt_new()?,
        };
        let keyring = Keyring::create(&home.keyring(), &passphrase)?;
        println!("keyring: {}", home.keyring().display());
        Some(keyring)
    };
    if home.policy().exists() {
        if keyring.is_some() {
            eprintln!("There is a policy already; nothing uses it before you sign it: coffer policy sign");
        }
    } else {
        let keyring = match keyring {
            Some(keyring) => keyring,
            None => site.keyring()?,
        };
        policy::create(&home, &keyring)?;
        println!("policy: {}", home.policy().display());
    }
    eprintln!("Keep a copy of the keyring and of its passphrase: without both, no sealed table can be read again.");
    Ok(())
}
