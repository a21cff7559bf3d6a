//! Sessions that end early.

/// Why a session ended before its query did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Revoked {
    /// What an engine that has its keys proved is no longer accepted.
    #[error("what an engine that has its keys proved is not, or no longer, what the policy wants")]
    Engine,
    /// An engine that has its keys did not prove itself again.
    #[error("an engine that has its keys did not prove itself again in time")]
    Age,
    /// The user may no longer use what it uses.
    #[error("the policy no longer lets the user read or write what it uses")]
    User,
}
