//! Masters outside of the keyring, for the client site: clients of key servers, and of HSMs'
//! modules, that wrap table keys and link keys.
//!
//! Not for enclaves, which never ask a KMS: only the client engine and the command line link this
//! crate. An address comes from the policy alone, never from a table's files. Every call has a
//! time-out for the whole of it, and answers have a bound. What was unwrapped is kept for as long
//! as the master's URI says (`cache`).
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::as_conversions
    )
)]

pub mod aws;
mod cache;
mod hadoop;
mod http;
mod pkcs11;
mod retry;
mod secret_text;

use cache::Cached;
use coffer_custody::{
    MasterError, MasterKeys, MasterUri, Masters, Policy,
    master::{DataKeys, Envelope, Limits, OutsideUri},
};
use zeroize::Zeroizing;

/// The masters of a policy. Nobody is asked yet.
pub fn of(policy: &Policy) -> Masters {
    Masters::of(policy, open)
}

/// The master of a URI. Nobody is asked yet, and no file is read.
pub fn open(uri: &OutsideUri) -> Box<dyn MasterKeys> {
    match uri {
        OutsideUri::HadoopKms(uri) => cached(hadoop::HadoopKms::new(uri.clone()), uri.limits),
        OutsideUri::AwsKms(uri) => cached(aws::AwsKms::new(uri.clone()), uri.limits),
        OutsideUri::Pkcs11(uri) => cached(pkcs11::Token::new(uri.clone()), uri.limits),
    }
}

/// The secrets that these masters are asked with, as far as they can be had now, and what they are:
/// they belong nowhere else.
pub fn secrets(policy: &Policy) -> Vec<(String, Zeroizing<String>)> {
    let mut all = Vec::new();
    for (name, uri) in policy.masters() {
        let MasterUri::Outside(uri) = uri else {
            continue;
        };
        match uri {
            // A name, and no secret.
            OutsideUri::HadoopKms(_) => {}
            OutsideUri::AwsKms(uri) => all.extend(aws::secrets(uri).into_iter().map(|secret| {
                let secret = Zeroizing::new(secret.expose().to_owned());
                (format!("AWS credentials of the master {name:?}"), secret)
            })),
            OutsideUri::Pkcs11(uri) => {
                let pin = pkcs11::pin(uri).ok();
                all.extend(pin.map(|pin| (format!("the PIN of the master {name:?}"), pin)));
            }
        }
    }
    all
}

fn cached(kms: impl DataKeys + 'static, limits: Limits) -> Box<dyn MasterKeys> {
    Box::new(Cached::new(Envelope(kms), limits.cache))
}

/// What a server said, cut short and on one line: it goes into errors that people read.
fn in_short(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(200).collect::<String>().trim().to_owned()
}

fn garbage(of: &str, reason: impl Into<String>) -> MasterError {
    MasterError::Garbage {
        of: of.to_owned(),
        reason: reason.into(),
    }
}
