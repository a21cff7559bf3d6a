//! Fragments built by hand, run with inputs from memory.

mod aggregates;
mod ahead;
mod codec;
mod explain;
mod generate;
mod join_cases;
mod joins;
mod nested;
mod operators;
mod partitioning;
mod places;
mod samples;
mod scan;
mod spilled_windows;
mod stored;
mod support;
mod windows;
