//! A malicious host, for tests. **Not part of any release**: neither engine links this crate.
//!
//! `coffer-proxy` takes the command line of `coffer-engine`, starts the real engine behind it, and
//! relays the task protocol between the executor and that engine. It can be controlled, over a
//! socket, to apply one mutation: to alter, drop, repeat, swap or replay what crosses, at one place
//! of one query. It keeps what crossed earlier, as a host can, for replays.
//!
//! It has no key and needs none: every mutation is one that whoever holds the executor's machine
//! can tell. What must come of each is judged at the driver, by `adversary/coffer_adversary`.

pub mod control;
pub mod engine;
pub mod exchange;
pub mod mutations;
pub mod past;
pub mod recorder;
pub mod relay;
pub mod rng;
pub mod streams;
pub mod wire;
