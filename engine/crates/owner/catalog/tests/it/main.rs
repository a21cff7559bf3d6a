//! Tables from their making to their reading, altered and restored by hosts of every kind.

mod adopt;
mod names;
mod nested;
mod owner;
mod policy;
mod remote;
mod stored;
mod table;
mod versions;
