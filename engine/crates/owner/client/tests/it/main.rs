//! A client engine with real engines, in one process: one program for all of these tests, so that
//! what they share is compiled and linked once. Not here: `attack`, whose panic hook is the whole
//! process's.

mod access;
mod audit;
mod cached;
mod evidence;
mod follow;
mod harness;
mod host_chosen;
mod in_memory;
mod joins;
mod key_service;
mod leases;
mod lifecycle;
mod nonces;
mod process;
mod queries;
mod repeats;
mod stored;
mod tampering;
mod whole;
mod writes;
