//! The secrets that stand in the environment and in the shared files, of those that the chain of
//! credentials may use. Whoever lends credentials is not asked: what is lent stands nowhere that it
//! could be copied from by mistake.

use std::{borrow::Cow, collections::BTreeSet};

use aws_config::profile;
use aws_types::os_shim_internal::{Env, Fs};
use coffer_kms::aws::SecretText;
use zeroize::Zeroizing;

/// Secret keys and session tokens: those of the environment, and where it has none, or a profile is
/// named, those of the profile and of the ones that it has its credentials from.
pub(crate) async fn of(profile: Option<&str>) -> Vec<SecretText> {
    found(profile, &Fs::real(), &Env::real()).await
}

async fn found(named: Option<&str>, files: &Fs, environment: &Env) -> Vec<SecretText> {
    let own = || {
        ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
            .into_iter()
            .filter_map(|name| environment.get(name).ok())
    };
    let mut all: Vec<String> = Vec::new();
    if named.is_none() && environment.get("AWS_ACCESS_KEY_ID").is_ok() {
        all.extend(own());
    } else {
        #[allow(deprecated)]
        let usual = profile::profile_file::ProfileFiles::default();
        let named = named.map(|name| Cow::Owned(name.to_owned()));
        // What cannot be read gives no credentials either.
        let Ok(profiles) = profile::load(files, environment, &usual, named).await else {
            return Vec::new();
        };
        let (mut seen, mut next) = (BTreeSet::new(), Some(profiles.selected_profile()));
        while let Some(name) = next.filter(|name| seen.insert(*name)) {
            let Some(section) = profiles.get_profile(name) else {
                break;
            };
            for secret in ["aws_secret_access_key", "aws_session_token"] {
                all.extend(section.get(secret).map(str::to_owned));
            }
            if section.get("credential_source") == Some("Environment") {
                all.extend(own());
            }
            next = section.get("source_profile");
        }
    }
    all.retain(|secret| !secret.is_empty());
    all.into_iter()
        .map(|secret| SecretText::new(Zeroizing::new(secret)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const CONFIG: &str = "[default]\nregion = eu-west-1\n\
        [profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n\
        [profile loop]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = loop\n\
        [profile env]\nrole_arn = arn:aws:iam::1:role/r\ncredential_source = Environment\n";
    const CREDENTIALS: &str = "[default]\naws_access_key_id = A\naws_secret_access_key = a=b/c+\n\
        # aws_session_token = comment\n\
        [base]\naws_access_key_id = B\naws_secret_access_key = b\naws_session_token = t\n";

    fn secrets(named: Option<&str>, environment: &[(&str, &str)]) -> Vec<String> {
        let files = Fs::from_map(HashMap::from([
            ("/home/me/.aws/config".to_owned(), CONFIG),
            ("/home/me/.aws/credentials".to_owned(), CREDENTIALS),
        ]));
        let environment = [&[("HOME", "/home/me")], environment].concat();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let found = runtime.block_on(found(named, &files, &Env::from_slice(&environment)));
        found
            .iter()
            .map(|secret| secret.expose().to_owned())
            .collect()
    }

    #[test]
    fn those_of_the_profile_and_of_its_sources() {
        assert_eq!(secrets(None, &[]), ["a=b/c+"]);
        assert_eq!(secrets(None, &[("AWS_PROFILE", "base")]), ["b", "t"]);
        assert_eq!(secrets(Some("role"), &[]), ["b", "t"]);
        assert_eq!(secrets(Some("loop"), &[]), [""; 0]);
        assert_eq!(secrets(Some("nobody"), &[]), [""; 0]);
    }

    #[test]
    fn those_of_the_environment_unless_a_profile_is_named() {
        let environment = [
            ("AWS_ACCESS_KEY_ID", "E"),
            ("AWS_SECRET_ACCESS_KEY", "e"),
            ("AWS_SESSION_TOKEN", "f"),
        ];
        assert_eq!(secrets(None, &environment), ["e", "f"]);
        assert_eq!(secrets(Some("default"), &environment), ["a=b/c+"]);
        assert_eq!(secrets(Some("env"), &environment), ["e", "f"]);
    }
}
