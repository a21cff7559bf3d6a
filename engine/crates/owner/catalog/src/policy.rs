//! The policy as the owner signed it: its files are coffer-custody' business, which version is the newest is the register's.
//!
//! Signing is a step of four, each under the policy's lock: the register names the version as pending, `policy.toml` and `policy.sig` are
//! replaced, the register commits. What dies in between leaves a policy that is accepted (before the first step and after the third), or one
//! that is refused with its difference shown; never an older one that passes for the newest.

use std::path::Path;

use coffer_custody::{
    Home, Keyring, Policy, PolicyError, PolicyLock, Review,
    policy::{TEMPLATE, edit},
};
use coffer_sealing::{LinkId, TableId};

use crate::{Error, Register};

/// The policy of a config directory, if its owner signed it.
pub fn open(home: &Home, keyring: &Keyring) -> Result<Policy, Error> {
    match read(home, keyring) {
        Ok(policy) => settled(home, keyring, policy),
        // Another process may be half way through a change of its own.
        Err(error @ Error::Policy(PolicyError::NotFound(_))) => Err(error),
        Err(error) => match PolicyLock::take(home) {
            Ok(lock) => {
                let policy = read(home, keyring);
                drop(lock);
                settled(home, keyring, policy?)
            }
            Err(_) => Err(error),
        },
    }
}

fn read(home: &Home, keyring: &Keyring) -> Result<Policy, Error> {
    let heads = Register::of(home, keyring).policy_heads()?;
    Ok(Policy::read(home, &keyring.policy_key(), &heads)?)
}

/// A process that died after it had written both files left the commit to the next reader: until then the version before would count too.
fn settled(home: &Home, keyring: &Keyring, policy: Policy) -> Result<Policy, Error> {
    let register = Register::of(home, keyring);
    if register.policy_heads()?.committed != Some(policy.head()) {
        register.commit_policy(policy.head())?;
    }
    Ok(policy)
}

/// What the owner signed last, whatever lies there now: for reports alone ([`Policy::last`]).
pub fn last(home: &Home, keyring: &Keyring) -> Result<Policy, Error> {
    let heads = Register::of(home, keyring).policy_heads()?;
    Ok(Policy::last(home, &keyring.policy_key(), &heads)?)
}

/// What [`sign`] would sign.
pub fn review(home: &Home, keyring: &Keyring) -> Result<Review, Error> {
    let heads = Register::of(home, keyring).policy_heads()?;
    Ok(Review::of(home, &keyring.policy_key(), &heads)?)
}

/// What [`replace`] would sign.
pub fn review_text(home: &Home, keyring: &Keyring, text: &str) -> Result<Review, Error> {
    let heads = Register::of(home, keyring).policy_heads()?;
    Ok(Review::of_text(text.into(), home, &keyring.policy_key(), &heads)?)
}

/// Signs the policy that the owner was shown, if it is still the one that lies there.
pub fn sign(home: &Home, keyring: &Keyring, shown: &Review) -> Result<Policy, Error> {
    let lock = PolicyLock::take(home)?;
    lock.check_shown(shown)?;
    put(home, keyring, &lock, shown.text())
}

/// Makes this text the policy, signed, whatever is there.
pub fn replace(home: &Home, keyring: &Keyring, text: &str) -> Result<Policy, Error> {
    put(home, keyring, &PolicyLock::take(home)?, text.as_bytes())
}

/// Makes the template the policy, signed, where there is none. Whether there was none.
pub fn create(home: &Home, keyring: &Keyring) -> Result<bool, Error> {
    let lock = PolicyLock::take(home)?;
    let path = home.policy();
    if path.try_exists().map_err(Error::io("look for", &path))? {
        return Ok(false);
    }
    // An unsealed build takes no release's policy, this one included: its owner says so first, and signs that.
    if coffer_sealing::UNSEALED {
        lock.put_unsigned(TEMPLATE)?;
        return Ok(true);
    }
    put(home, keyring, &lock, TEMPLATE.as_bytes()).map(|_| true)
}

/// Changes the policy, and signs what comes of it. One that is not signed is not changed.
pub fn change(
    home: &Home,
    keyring: &Keyring,
    edit: impl FnOnce(&Policy) -> Result<String, PolicyError>,
) -> Result<(), Error> {
    let lock = PolicyLock::take(home)?;
    let policy = read(home, keyring)?;
    let text = edit(&policy)?;
    if text != policy.text() {
        put(home, keyring, &lock, text.as_bytes())?;
    }
    Ok(())
}

/// [`edit::record_table`], signed.
pub fn record_table(
    home: &Home,
    keyring: &Keyring,
    name: &str,
    id: TableId,
    folder: &Path,
    master: &str,
) -> Result<(), Error> {
    change(home, keyring, |policy| {
        edit::record_table(policy, name, id, folder, master)
    })
}

/// [`edit::record_link`], signed.
pub fn record_link(home: &Home, keyring: &Keyring, name: &str, id: LinkId, master: &str) -> Result<(), Error> {
    change(home, keyring, |policy| edit::record_link(policy, name, id, master))
}

/// [`edit::forget_table`], signed.
pub fn forget_table(home: &Home, keyring: &Keyring, name: &str, id: TableId) -> Result<(), Error> {
    change(home, keyring, |policy| edit::forget_table(policy, name, id))
}

/// [`edit::change_masters`], signed.
pub fn change_masters(
    home: &Home,
    keyring: &Keyring,
    tables: &[(String, TableId)],
    links: &[(String, LinkId)],
    master: &str,
) -> Result<(), Error> {
    change(home, keyring, |policy| {
        edit::change_masters(policy, tables, links, master)
    })
}

fn put(home: &Home, keyring: &Keyring, lock: &PolicyLock, text: &[u8]) -> Result<Policy, Error> {
    let (register, key) = (Register::of(home, keyring), keyring.policy_key());
    let head = lock.next(&key, &register.policy_heads()?, text)?;
    register.pend_policy(head)?;
    lock.put(&key, head, text)?;
    register.commit_policy(head)?;
    read(home, keyring)
}
