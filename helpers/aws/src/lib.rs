//! AWS credentials, found by AWS's own library, and signatures with them.
//!
//! The libraries are `aws-config` and `aws-sigv4`. Credentials that are lent for a time are kept
//! until shortly before it is over; others are read anew for each signature, for they may have been
//! written anew. Not here: what is signed, and the server that it is sent to.
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

mod credentials;
mod secrets;
mod sign;

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use aws_credential_types::Credentials;
use coffer_kms::aws::{Answer, Failure, Question, Unsigned, What};

/// Credentials are not used for so long before they expire: whoever checks them has another clock.
const MARGIN: Duration = Duration::from_secs(300);

/// Answers questions.
#[derive(Default)]
pub struct Signer {
    /// Lent for a time, by the profile that they are of.
    lent: BTreeMap<Option<String>, Credentials>,
}

impl Signer {
    /// Answers a question, in time.
    pub async fn answer(&mut self, question: Question) -> Answer {
        let within = Duration::from_millis(question.within);
        let profile = question.profile;
        match question.what {
            What::Secrets => Answer::Secrets(secrets::of(profile.as_deref()).await),
            What::Region => {
                // An instance's metadata is asked last, and not everybody is an instance.
                let region =
                    tokio::time::timeout(within, credentials::region(profile.as_deref())).await;
                Answer::Region(region.unwrap_or_default())
            }
            What::Sign(request) => {
                let signed = tokio::time::timeout(within, self.sign(profile, &request)).await;
                match signed {
                    Ok(Ok(answer)) => answer,
                    Ok(Err(failure)) => Answer::Failed(failure),
                    Err(_) => Answer::Failed(Failure::away(format!(
                        "no credentials within {:.1} s",
                        within.as_secs_f32()
                    ))),
                }
            }
        }
    }

    async fn sign(
        &mut self,
        profile: Option<String>,
        request: &Unsigned,
    ) -> Result<Answer, Failure> {
        if let Some(credentials) = self.lent.get(&profile)
            && is_good(credentials, SystemTime::now())
        {
            return sign::headers(request, credentials, SystemTime::now());
        }
        let credentials = credentials::load(profile.as_deref(), &request.region).await?;
        let signed = sign::headers(request, &credentials, SystemTime::now());
        self.lent.remove(&profile);
        if credentials.expiry().is_some() {
            self.lent.insert(profile, credentials);
        }
        signed
    }
}

/// Whether they can be used for a while yet.
fn is_good(credentials: &Credentials, now: SystemTime) -> bool {
    credentials
        .expiry()
        .is_some_and(|expiry| expiry > now + MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_good_until_shortly_before_they_expire() {
        let now = SystemTime::now();
        let lent =
            |expiry| Credentials::new("id", "secret", Some("token".to_owned()), expiry, "test");
        assert!(is_good(&lent(Some(now + 2 * MARGIN)), now));
        assert!(!is_good(&lent(Some(now + MARGIN)), now));
        assert!(!is_good(&lent(Some(now - MARGIN)), now));
        assert!(!is_good(&lent(None), now), "not lent, and so not kept");
    }
}
