//! The verifiers of TEEs' evidence, as the client engine and the `coffer` command see them.
//!
//! The verifiers themselves are the program `coffer-attest` (the folder `helpers/` of the
//! repository), a process of its own for each report: what parses the hosts' certificates and
//! quotes then shares no memory with the keyring, and none of its crates are in the enclave, nor
//! change how those of the enclave are built. Here are the question, the answer, and the asking. On
//! the client site only.

mod process;
mod question;

pub use process::Verifiers;
pub use question::{Answer, Question};
