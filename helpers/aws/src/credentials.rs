//! Where credentials and region come from: the chains of `aws-config`.
//!
//! Without a profile that the policy names, that is the chain of all AWS tools: the environment,
//! the profile of the shared files (keys, roles by way of other profiles, web identity, single
//! sign-on, `credential_process`), a web identity of the environment, a container's credentials, an
//! instance's. With one it is the profile alone: that it cannot be had must not mean that another's
//! credentials are used.

use std::error::Error;

use aws_config::{
    BehaviorVersion, ConfigLoader, Region, default_provider::credentials::DefaultCredentialsChain,
    profile::ProfileFileCredentialsProvider, provider_config::ProviderConfig,
};
use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials, error::CredentialsError},
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use coffer_kms::aws::Failure;

/// The region of environment, profile or instance.
pub(crate) async fn region(profile: Option<&str>) -> Option<String> {
    let settings = loader(profile).load().await;
    settings.region().map(ToString::to_string)
}

/// Credentials, asked for anew. `region`: of whoever lends them.
pub(crate) async fn load(profile: Option<&str>, region: &str) -> Result<Credentials, Failure> {
    let region = Region::new(region.to_owned());
    let settings = loader(profile).region(region.clone()).load().await;
    let provider = ProviderConfig::default()
        .with_region(Some(region.clone()))
        .with_use_fips(settings.use_fips())
        .with_use_dual_stack(settings.use_dual_stack());
    let found = match profile {
        Some(name) => {
            ProfileFileCredentialsProvider::builder()
                .configure(&provider)
                .profile_name(name)
                .build()
                .provide_credentials()
                .await
        }
        None => {
            DefaultCredentialsChain::builder()
                .configure(provider)
                .region(region)
                .build()
                .await
                .provide_credentials()
                .await
        }
    };
    found.map_err(|error| failure(profile, &error))
}

/// Of settings alone.
fn loader(profile: Option<&str>) -> ConfigLoader {
    let loader = aws_config::defaults(BehaviorVersion::latest()).no_credentials();
    match profile {
        Some(name) => loader.profile_name(name),
        None => loader,
    }
}

fn failure(profile: Option<&str>, error: &CredentialsError) -> Failure {
    let whole = chain(error);
    let away = causes(error).any(|error| error.is::<ConnectorError>());
    match (error, profile) {
        (CredentialsError::CredentialsNotLoaded(_), Some(name)) => {
            Failure::settings(format!("no credentials in the profile {name:?}"))
        }
        (CredentialsError::CredentialsNotLoaded(_), None) => Failure::settings(
            "no credentials: neither in the environment nor in the profile, and none that a \
                container or an instance is lent",
        ),
        (CredentialsError::ProviderTimedOut(_), _) => Failure::away(whole),
        _ if away => Failure::away(whole),
        _ => Failure::settings(whole),
    }
}

/// An error and its causes.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// The words of an error and of its causes.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    for more in causes(error).map(ToString::to_string) {
        // Some say all that their causes say.
        if words.last().is_none_or(|last| !last.contains(&more)) {
            words.push(more);
        }
    }
    words.join(": ")
}
