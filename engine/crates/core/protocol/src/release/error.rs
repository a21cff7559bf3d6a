//! Why keys are not released, or a release is not accepted.

/// One variant per cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The owner's key is not the one that the evidence was made for.
    #[error("the engine was attested for another owner")]
    OtherOwner,
    /// The application's name is too long.
    #[error("the application's name is too long")]
    ApplicationTooLong,
    /// The engine's or owner's public key is not usable.
    #[error("the peer's public key is not usable")]
    BadPublicKey,
    /// No attestation of this engine leads to this release: from another owner, for another engine,
    /// challenge or application, or altered.
    #[error(
        "the release does not open: it is not from this engine's owner, for this engine and \
            application"
    )]
    Unauthentic,
    /// A release of this number was accepted before.
    #[error("release {0} was accepted before")]
    Replayed(u64),
    /// It opens, but is not a release.
    #[error("the release is malformed")]
    Malformed,
    /// Random source or crypto library failed.
    #[error(transparent)]
    Sealing(#[from] coffer_sealing::Error),
}

const REPEATED_BETWEEN: &str = "someone between driver and engine changed or repeated a message, \
    or the engine was restarted; run the query again";

coffer_sealing::error_table! {
    ReleaseError: &'static str;
    Self::OtherOwner => "other_owner", "an engine serves one owner for its life: restart it";
    Self::ApplicationTooLong => "application_too_long", "give the application a shorter name";
    Self::BadPublicKey => "bad_public_key", REPEATED_BETWEEN;
    Self::Unauthentic => "release_unauthentic", REPEATED_BETWEEN;
    Self::Replayed(_) => "release_replayed", REPEATED_BETWEEN;
    Self::Malformed => "release_malformed",
        "install the same version of Coffer on the driver and on every executor";
    Self::Sealing(error) => error.code(), error.hint();
}
