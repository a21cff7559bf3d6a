//! Merkle trees of a log (RFC 9162, section 2.1): hashes of SHA-256.

use aws_lc_rs::digest::{Context, SHA256};

/// A hash.
pub type Hash = [u8; 32];

/// Steps of a path at most: a tree of 2^64 leaves has no longer one.
pub const MOST_STEPS: usize = 64;

fn of(prefix: u8, parts: [&[u8]; 2]) -> Hash {
    let mut context = Context::new(&SHA256);
    context.update(&[prefix]);
    parts.iter().for_each(|part| context.update(part));
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

/// Of an entry.
pub fn leaf(entry: &[u8]) -> Hash {
    of(0, [entry, &[]])
}

/// Of two neighbours.
pub fn node(left: &Hash, right: &Hash) -> Hash {
    of(1, [left, right])
}

/// The root over the hashes of leaves.
pub fn root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => coffer_sealing::sha256(&[]),
        [one] => *one,
        _ => {
            let (left, right) = leaves.split_at(left_of(leaves.len()));
            node(&root(left), &root(right))
        }
    }
}

/// The neighbours on the way from a leaf to the root, the lowest first; none if there is no such
/// leaf.
pub fn path(leaves: &[Hash], index: usize) -> Option<Vec<Hash>> {
    if index >= leaves.len() {
        return None;
    }
    if leaves.len() == 1 {
        return Some(Vec::new());
    }
    let (left, right) = leaves.split_at(left_of(leaves.len()));
    let (mut steps, neighbour) = match index.checked_sub(left.len()) {
        None => (path(left, index)?, root(right)),
        Some(index) => (path(right, index)?, root(left)),
    };
    steps.push(neighbour);
    Some(steps)
}

/// The root to which a path leads from a leaf (RFC 9162, section 2.1.3.2); none if a tree of this
/// size has no such path.
pub fn root_by(leaf: &Hash, index: u64, size: u64, path: &[Hash]) -> Option<Hash> {
    if index >= size {
        return None;
    }
    let (mut at, mut last) = (index, size - 1);
    let mut hash = *leaf;
    for step in path {
        if last == 0 {
            return None;
        }
        if at & 1 == 1 || at == last {
            hash = node(step, &hash);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            hash = node(&hash, step);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    (last == 0).then_some(hash)
}

/// The leaves on the left of a tree of so many: the largest power of two below, at least 1.
fn left_of(count: usize) -> usize {
    let half = count.next_power_of_two() / 2;
    half.clamp(1, count.saturating_sub(1).max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The leaves of the tree that certificate-transparency's own tests use, and its roots by size.
    const ENTRIES: [&str; 8] = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];
    const ROOTS: [&str; 8] = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];

    #[test]
    fn roots_are_those_that_are_published() {
        let leaves: Vec<Hash> = ENTRIES
            .iter()
            .map(|entry| leaf(&hex::decode(entry).unwrap()))
            .collect();
        for (size, wanted) in ROOTS.iter().enumerate() {
            assert_eq!(hex::encode(root(&leaves[..=size])), *wanted);
        }
        assert_eq!(
            hex::encode(root(&[])),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    proptest! {
        #[test]
        fn a_path_leads_to_the_root_and_no_other_does(
            size in 1_u64..200,
            index in 0_u64..200,
            bit in 0_usize..256,
        ) {
            let leaves: Vec<Hash> = (0..size).map(|n| leaf(&n.to_be_bytes())).collect();
            let at = usize::try_from(index).unwrap();
            let Some(steps) = path(&leaves, at) else {
                prop_assert!(index >= size);
                return Ok(());
            };
            let found = root_by;
            let wanted = Some(root(&leaves));
            prop_assert_eq!(found(&leaves[at], index, size, &steps), wanted);
            // Another leaf, another place, a step more or less or changed.
            let mut other = leaves[at];
            other[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(found(&other, index, size, &steps), wanted);
            if size > 1 {
                prop_assert_ne!(found(&leaves[at], (index + 1) % size, size, &steps), wanted);
                prop_assert_ne!(found(&leaves[at], index, size, &steps[1..]), wanted);
                let mut changed = steps.clone();
                let step = bit % changed.len();
                changed[step][bit / 8] ^= 1 << (bit % 8);
                prop_assert_ne!(found(&leaves[at], index, size, &changed), wanted);
            }
            let mut more = steps.clone();
            more.push([0; 32]);
            prop_assert_eq!(found(&leaves[at], index, size, &more), None);
            prop_assert_eq!(found(&leaves[at], size, size, &steps), None);
        }
    }
}
