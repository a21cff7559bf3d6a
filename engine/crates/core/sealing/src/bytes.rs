//! Reading fixed fields from bytes a host may have made up.

use crate::Error;

/// The `N` bytes at `at`.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Error> {
    let need = at.saturating_add(N);
    let short = Error::Truncated {
        need,
        got: bytes.len(),
    };
    bytes
        .get(at..need)
        .and_then(|found| <[u8; N]>::try_from(found).ok())
        .ok_or(short)
}
