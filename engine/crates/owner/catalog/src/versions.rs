//! Which versions of a table there are, by the names of its manifests: the host's word.

use std::path::Path;

use coffer_protocol::storage::Reach;

use crate::{Error, disk, manifest_name};

/// Bytes of a manifest at most.
pub(crate) const MANIFEST_LIMIT: u64 = 64 << 20;

/// The newest version of which there is a manifest by name.
pub(crate) fn newest_version(reach: &Reach, manifests: &Path) -> Result<Option<u64>, Error> {
    Ok(versions(reach, manifests)?.into_iter().max())
}

/// The versions of which there are manifests by name.
pub(crate) fn versions(reach: &Reach, manifests: &Path) -> Result<Vec<u64>, Error> {
    let names = disk::names_at(reach, manifests)?;
    let versions = names.iter();
    Ok(versions
        .filter_map(|name| name.to_str().and_then(version_of))
        .collect())
}

/// The version that a manifest's file name says, if it is one.
pub(crate) fn version_of(name: &str) -> Option<u64> {
    let version = name.strip_prefix("manifest-")?.parse().ok()?;
    (manifest_name(version) == name).then_some(version)
}
