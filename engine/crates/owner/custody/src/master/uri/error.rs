//! What is wrong with a master's URI.

use crate::master::uri::SCHEMES;

/// One variant per cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// There is no `scheme:`.
    #[error("it has no scheme")]
    NoScheme,
    /// A scheme that this version does not know.
    #[error("there is no kind of master {0:?}")]
    UnknownScheme(String),
    /// Something that must be there is not.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// An option that this kind of master does not have.
    #[error("there is no option `{0}`")]
    UnknownOption(String),
    /// One option twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// A value that cannot be.
    #[error("{value:?} is no {what}")]
    BadValue {
        /// What it should be.
        what: &'static str,
        /// What was written, cut short.
        value: String,
    },
    /// A server that would be asked in clear, over a network.
    #[error(
        "{0} would be asked over plain HTTP: who listens on the way sees the keys that it wraps"
    )]
    PlainHttp(String),
    /// A secret where people can read it. It is not repeated here.
    #[error("`{0}` is a secret, and a policy is no place for one")]
    Secret(&'static str),
}

impl UriError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NoScheme | Self::UnknownScheme(_) => {
                format!(
                    "masters are {}:…; docs/reference/masters.md has their forms",
                    SCHEMES.join(":…, ")
                )
            }
            Self::Secret("pin-value") => {
                "put it into a file, and write pin-source=file:PATH or pin-source=env:NAME".into()
            }
            Self::Secret(_) => {
                "name a user with user=NAME; AWS credentials come from the environment or a profile"
                    .into()
            }
            Self::PlainHttp(host) => {
                format!(
                    "use https://…; or, if that network is yours, name the server: \
                        plain-http={host}"
                )
            }
            _ => {
                "docs/reference/masters.md has the forms and options of each kind of master".into()
            }
        }
    }
}
