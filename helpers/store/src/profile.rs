//! Credentials, region and endpoint of S3 as AWS's own tools find them: the environment, the
//! profile of the shared files (keys, roles, web identity, single sign-on, `credential_process`), a
//! container's, an instance's.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use aws_config::{
    BehaviorVersion, SdkConfig, default_provider::credentials::DefaultCredentialsChain,
    provider_config::ProviderConfig,
};
use aws_credential_types::provider::ProvideCredentials;
use object_store::{CredentialProvider, Error, aws::AwsCredential};
use tokio::sync::Mutex;

/// Credentials are not used for so long before they expire: whoever checks them has another clock.
const MARGIN: Duration = Duration::from_secs(300);

/// What profile and environment say, without credentials.
pub(crate) async fn settings() -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .no_credentials()
        .load()
        .await
}

/// The chain of all AWS tools. What it gives is kept until shortly before it expires.
#[derive(Debug)]
pub(crate) struct Chain {
    chain: DefaultCredentialsChain,
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    credential: Arc<AwsCredential>,
    expiry: Option<SystemTime>,
}

impl Chain {
    pub(crate) async fn of(settings: &SdkConfig) -> Self {
        let provider = ProviderConfig::default()
            .with_region(settings.region().cloned())
            .with_use_fips(settings.use_fips())
            .with_use_dual_stack(settings.use_dual_stack());
        let mut chain = DefaultCredentialsChain::builder().configure(provider);
        if let Some(region) = settings.region() {
            chain = chain.region(region.clone());
        }
        Self {
            chain: chain.build().await,
            kept: Mutex::default(),
        }
    }
}

impl Kept {
    fn is_good(&self, now: SystemTime) -> bool {
        self.expiry.is_none_or(|expiry| expiry > now + MARGIN)
    }
}

#[async_trait]
impl CredentialProvider for Chain {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut kept = self.kept.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.is_good(SystemTime::now())) {
            return Ok(Arc::clone(&kept.credential));
        }
        let found = self.chain.provide_credentials().await;
        let found = found.map_err(|error| Error::Generic {
            store: "S3",
            source: error.into(),
        })?;
        let credential = Arc::new(AwsCredential {
            key_id: found.access_key_id().to_owned(),
            secret_key: found.secret_access_key().to_owned(),
            token: found.session_token().map(str::to_owned),
        });
        *kept = Some(Kept {
            credential: Arc::clone(&credential),
            expiry: found.expiry(),
        });
        Ok(credential)
    }
}
