use aws_lc_rs::digest::{SHA256, digest};

/// SHA-256.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes)
        .as_ref()
        .try_into()
        .unwrap_or_default()
}
