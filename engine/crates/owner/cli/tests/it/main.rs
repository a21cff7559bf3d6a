//! The commands in depth, each with an owner of its own: one program for all of them. `cli.rs`
//! beside it is what `make quick` runs.

mod adopt;
mod audit;
#[path = "../common/mod.rs"]
mod common;
mod config_dir;
mod doctor;
mod faults;
mod keys;
mod locations;
mod names;
mod policy;
