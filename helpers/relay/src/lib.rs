//! Drivers on other machines and the owner's key service, brought together over mutual TLS; and
//! executors and engines in virtual machines. See the crate's README.

mod names;
mod serve;
mod tls;

pub use names::introduce;
pub use serve::{Server, connect_once, forward, forward_to_engine, own_socket};
pub use tls::{Files, TlsError};
