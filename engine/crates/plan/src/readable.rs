//! Fragments as text.

use coffer_proto::plan::Fragment;

/// The fragment as indented text, for EXPLAIN.
pub fn readable(fragment: &Fragment) -> String {
    format!("fragment version {}", fragment.version)
}
