//! The two contracts between the JVM and the engines, as generated types: [`plan`] is the fragment IR, [`wire`] the
//! messages. The texts are in `proto/`, with the meaning of every field. Decoding bounds recursion (prost's limit of
//! 100) and is the only thing done here: what a message *means* is checked where it is used.

/// The fragment IR (`proto/coffer/plan.proto`).
#[allow(missing_docs, clippy::all, clippy::pedantic)] // generated
pub mod plan {
    include!(concat!(env!("OUT_DIR"), "/coffer.plan.rs"));
}

/// The task protocol and the client protocol (`proto/coffer/wire.proto`).
#[allow(missing_docs, clippy::all, clippy::pedantic)] // generated
pub mod wire {
    include!(concat!(env!("OUT_DIR"), "/coffer.wire.rs"));
}
