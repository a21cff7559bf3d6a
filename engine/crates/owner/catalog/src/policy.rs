//! The policy as the owner signed it: its files are coffer-custody' business, which version is the
//! newest is the register's.
//!
//! Signing is a step of four, each under the policy's lock: the register names the version as
//! pending, `policy.toml` and `policy.sig` are replaced, the register commits. What dies in between
//! leaves a policy that is accepted (before the first step and after the third), or one that is
//! refused with its difference shown; never an older one that passes for the newest.

use std::path::Path;

use coffer_custody::{
    ConfigDir, Keyring, Policy, PolicyError, PolicyLock, Review,
    policy::{TEMPLATE, edit},
};
use coffer_sealing::{LinkId, TableId};

use crate::{Error, Register};

/// The policy of a config directory, if its owner signed it.
pub fn open(config_dir: &ConfigDir, keyring: &Keyring) -> Result<Policy, Error> {
    match read(config_dir, keyring) {
        Ok(policy) => settled(config_dir, keyring, policy),
        // Another process may be half way through a change of its own.
        Err(error @ Error::Policy(PolicyError::NotFound(_))) => Err(error),
        Err(error) => match PolicyLock::take(config_dir) {
            Ok(lock) => {
                let policy = read(config_dir, keyring);
                drop(lock);
                settled(config_dir, keyring, policy?)
            }
            Err(_) => Err(error),
        },
    }
}

fn read(config_dir: &ConfigDir, keyring: &Keyring) -> Result<Policy, Error> {
    let heads = Register::of(config_dir, keyring).policy_heads()?;
    Ok(Policy::read(config_dir, &keyring.policy_key(), &heads)?)
}

/// A process that died after it had written both files left the commit to the next reader: until
/// then the version before would count too.
fn settled(config_dir: &ConfigDir, keyring: &Keyring, policy: Policy) -> Result<Policy, Error> {
    let register = Register::of(config_dir, keyring);
    if register.policy_heads()?.committed != Some(policy.head()) {
        register.commit_policy(policy.head())?;
    }
    Ok(policy)
}

/// What the owner signed last, whatever lies there now: for reports alone ([`Policy::last`]).
pub fn last(config_dir: &ConfigDir, keyring: &Keyring) -> Result<Policy, Error> {
    let heads = Register::of(config_dir, keyring).policy_heads()?;
    Ok(Policy::last(config_dir, &keyring.policy_key(), &heads)?)
}

/// What [`sign`] would sign.
pub fn review(config_dir: &ConfigDir, keyring: &Keyring) -> Result<Review, Error> {
    let heads = Register::of(config_dir, keyring).policy_heads()?;
    Ok(Review::of(config_dir, &keyring.policy_key(), &heads)?)
}

/// What [`replace`] would sign.
pub fn review_text(config_dir: &ConfigDir, keyring: &Keyring, text: &str) -> Result<Review, Error> {
    let heads = Register::of(config_dir, keyring).policy_heads()?;
    Ok(Review::of_text(
        text.into(),
        config_dir,
        &keyring.policy_key(),
        &heads,
    )?)
}

/// Signs the policy that the owner was shown, if it is still the one that lies there.
pub fn sign(config_dir: &ConfigDir, keyring: &Keyring, shown: &Review) -> Result<Policy, Error> {
    let lock = PolicyLock::take(config_dir)?;
    lock.check_shown(shown)?;
    put(config_dir, keyring, &lock, shown.text())
}

/// Makes this text the policy, signed, whatever is there.
pub fn replace(config_dir: &ConfigDir, keyring: &Keyring, text: &str) -> Result<Policy, Error> {
    put(
        config_dir,
        keyring,
        &PolicyLock::take(config_dir)?,
        text.as_bytes(),
    )
}

/// Makes the template the policy, signed, where there is none. Whether there was none.
pub fn create(config_dir: &ConfigDir, keyring: &Keyring) -> Result<bool, Error> {
    let lock = PolicyLock::take(config_dir)?;
    let path = config_dir.policy();
    if path.try_exists().map_err(Error::io("look for", &path))? {
        return Ok(false);
    }
    // An unsealed build takes no release's policy, this one included: its owner says so first, and
    // signs that.
    if coffer_sealing::UNSEALED {
        lock.put_unsigned(TEMPLATE)?;
        return Ok(true);
    }
    put(config_dir, keyring, &lock, TEMPLATE.as_bytes()).map(|_| true)
}

/// Changes the policy, and signs what comes of it. One that is not signed is not changed.
pub fn change(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    edit: impl FnOnce(&Policy) -> Result<String, PolicyError>,
) -> Result<(), Error> {
    let lock = PolicyLock::take(config_dir)?;
    let policy = read(config_dir, keyring)?;
    let text = edit(&policy)?;
    if text != policy.text() {
        put(config_dir, keyring, &lock, text.as_bytes())?;
    }
    Ok(())
}

/// [`edit::record_table`], signed.
pub fn record_table(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    name: &str,
    id: TableId,
    folder: &Path,
    master: &str,
) -> Result<(), Error> {
    change(config_dir, keyring, |policy| {
        edit::record_table(policy, name, id, folder, master)
    })
}

/// [`edit::record_link`], signed.
pub fn record_link(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    name: &str,
    id: LinkId,
    master: &str,
) -> Result<(), Error> {
    change(config_dir, keyring, |policy| {
        edit::record_link(policy, name, id, master)
    })
}

/// [`edit::forget_table`], signed.
pub fn forget_table(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    name: &str,
    id: TableId,
) -> Result<(), Error> {
    change(config_dir, keyring, |policy| {
        edit::forget_table(policy, name, id)
    })
}

/// [`edit::change_masters`], signed.
pub fn change_masters(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    tables: &[(String, TableId)],
    links: &[(String, LinkId)],
    master: &str,
) -> Result<(), Error> {
    change(config_dir, keyring, |policy| {
        edit::change_masters(policy, tables, links, master)
    })
}

fn put(
    config_dir: &ConfigDir,
    keyring: &Keyring,
    lock: &PolicyLock,
    text: &[u8],
) -> Result<Policy, Error> {
    let (register, key) = (Register::of(config_dir, keyring), keyring.policy_key());
    let head = lock.next(&key, &register.policy_heads()?, text)?;
    register.pend_policy(head)?;
    lock.put(&key, head, text)?;
    register.commit_policy(head)?;
    read(config_dir, keyring)
}
