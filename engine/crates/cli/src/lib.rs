//! The coffer command line
