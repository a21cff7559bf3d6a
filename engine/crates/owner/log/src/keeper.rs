//! A log as a folder of static files (C2SP tlog-tiles), which any web server can show.
//!
//! ```text
//! checkpoint                the signed state
//! tile/L/N[.p/W]            hashes of level L: 256 of them, or W in the last tile of a level
//! tile/entries/N[.p/W]      the entries of tile/0/N, each behind its length (u16, big endian)
//! ```
//!
//! Files are written whole, the checkpoint last: who is interrupted leaves the log as it was.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Checkpoint, Entry, LogError, MOST_BYTES, Proof,
    note::{Note, PrivateKey, PublicKey},
    tree::{self, Hash},
    whole,
};

const CHECKPOINT: &str = "checkpoint";
const WIDTH: usize = 256;
/// Entries of a log at most: whoever reads it reads all of it.
const MOST_ENTRIES: u64 = 1 << 24;

/// A log's folder, to be read.
#[derive(Debug, Clone)]
pub struct Tiles(PathBuf);

impl Tiles {
    /// Of that folder.
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Makes a log without entries.
    pub fn create(folder: &Path, key: &PrivateKey) -> Result<Self, LogError> {
        fs::create_dir_all(folder).map_err(LogError::io(folder))?;
        let tiles = Self::at(folder);
        if folder.join(CHECKPOINT).exists() {
            return Err(LogError::Exists(folder.join(CHECKPOINT)));
        }
        tiles.publish(key, &[])?;
        Ok(tiles)
    }

    /// The checkpoint as it lies there, with its signatures.
    pub fn checkpoint(&self) -> Result<String, LogError> {
        let path = self.0.join(CHECKPOINT);
        let bytes = fs::read(&path).map_err(LogError::io(&path))?;
        match String::from_utf8(bytes) {
            Ok(text) if u64::try_from(text.len()).is_ok_and(|n| n <= MOST_BYTES) => Ok(text),
            _ => Err(LogError::Note("it is no text, or too long")),
        }
    }

    /// The state that the log signed.
    pub fn state(&self, log: &PublicKey) -> Result<Checkpoint, LogError> {
        Checkpoint::open(&Note::parse(&self.checkpoint()?)?, log)
    }

    /// The hashes of all entries, which must give the state's root.
    pub fn leaves(&self, state: &Checkpoint) -> Result<Vec<Hash>, LogError> {
        let mut leaves = Vec::new();
        for (tile, width) in tiles_of(state.size)? {
            let path = self.0.join("tile/0").join(name(tile, width));
            let bytes = fs::read(&path).map_err(LogError::io(&path))?;
            let (hashes, rest) = bytes.as_chunks::<32>();
            if hashes.len() != width || !rest.is_empty() {
                return Err(LogError::Tile(path));
            }
            leaves.extend_from_slice(hashes);
        }
        match tree::root(&leaves) == state.root {
            true => Ok(leaves),
            false => Err(LogError::Tile(self.0.join("tile/0"))),
        }
    }

    /// Adds entries that are not there yet, and signs the new state. Gives the places of all of
    /// them.
    pub fn append(&self, key: &PrivateKey, entries: &[Entry]) -> Result<Vec<u64>, LogError> {
        let _turn = self.turn()?;
        let state = self.state(key.public())?;
        self.leaves(&state)?;
        let mut all = self.entries(state.size)?;
        let known = all.len();
        let mut places = Vec::new();
        for entry in entries {
            let bytes = entry.bytes();
            let place = all.iter().position(|other| *other == bytes);
            let place = place.unwrap_or_else(|| {
                all.push(bytes);
                all.len() - 1
            });
            places.push(u64::try_from(place).unwrap_or(u64::MAX));
        }
        if all.len() > known {
            self.publish(key, &all)?;
        }
        Ok(places)
    }

    /// The proof of an entry, under the checkpoint as it lies there.
    pub fn prove(&self, log: &PublicKey, entry: &Entry) -> Result<Proof, LogError> {
        let checkpoint = self.checkpoint()?;
        let state = Checkpoint::open(&Note::parse(&checkpoint)?, log)?;
        let leaves = self.leaves(&state)?;
        let leaf = tree::leaf(&entry.bytes());
        let index = leaves.iter().position(|other| *other == leaf);
        let index = index.ok_or(LogError::NoEntry)?;
        Ok(Proof {
            index: u64::try_from(index).unwrap_or(u64::MAX),
            path: tree::path(&leaves, index).ok_or(LogError::NoEntry)?,
            checkpoint,
        })
    }

    /// The entries in their order.
    pub fn entries(&self, size: u64) -> Result<Vec<Vec<u8>>, LogError> {
        let mut entries = Vec::new();
        for (tile, width) in tiles_of(size)? {
            let path = self.0.join("tile/entries").join(name(tile, width));
            let bytes = fs::read(&path).map_err(LogError::io(&path))?;
            let found = bundle(&bytes).filter(|found| found.len() == width);
            entries.extend(found.ok_or(LogError::Tile(path))?);
        }
        Ok(entries)
    }

    /// Puts a checkpoint with one signature more in the place of the one that was read; the log
    /// must not have grown meanwhile, nor another witness have signed.
    pub fn add_signature(&self, read: &str, signed: &str) -> Result<(), LogError> {
        let _turn = self.turn()?;
        let same = Note::parse(read)?.text() == Note::parse(signed)?.text();
        match same && self.checkpoint()? == read {
            true => self.write(Path::new(CHECKPOINT), signed.as_bytes()),
            false => Err(LogError::Changed),
        }
    }

    fn turn(&self) -> Result<fs::File, LogError> {
        whole::hold(&self.0.join(".lock"))
    }

    fn publish(&self, key: &PrivateKey, entries: &[Vec<u8>]) -> Result<(), LogError> {
        let mut level: Vec<Hash> = entries.iter().map(|entry| tree::leaf(entry)).collect();
        let root = tree::root(&level);
        for (tile, some) in entries.chunks(WIDTH).enumerate() {
            let mut bytes = Vec::new();
            for entry in some {
                let length = u16::try_from(entry.len())
                    .map_err(|_| LogError::Note("an entry is too long"))?;
                bytes.extend(length.to_be_bytes());
                bytes.extend(entry);
            }
            self.write(
                &Path::new("tile/entries").join(name(tile, some.len())),
                &bytes,
            )?;
        }
        let mut height = 0_u8;
        while !level.is_empty() {
            for (tile, some) in level.chunks(WIDTH).enumerate() {
                let file = PathBuf::from(format!("tile/{height}")).join(name(tile, some.len()));
                self.write(&file, some.as_flattened())?;
            }
            // Only of full tiles there is a hash above.
            level = level.chunks_exact(WIDTH).map(tree::root).collect();
            height = height.saturating_add(1);
        }
        let size = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let origin = key.public().name().to_owned();
        let signed = Checkpoint { origin, size, root }.sign(key);
        self.write(Path::new(CHECKPOINT), signed.as_bytes())
    }

    /// A file that anybody may read; one that says the same already is left alone.
    fn write(&self, file: &Path, bytes: &[u8]) -> Result<(), LogError> {
        let path = self.0.join(file);
        match fs::read(&path).is_ok_and(|there| there == bytes) {
            true => Ok(()),
            false => whole::replace(&path, bytes, 0o644),
        }
    }
}

/// The tiles of a level with so many hashes, and how many each has.
fn tiles_of(size: u64) -> Result<Vec<(usize, usize)>, LogError> {
    if size > MOST_ENTRIES {
        return Err(LogError::Checkpoint(
            "the log is larger than this version reads",
        ));
    }
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let tiles = size.div_ceil(WIDTH);
    Ok((0..tiles)
        .map(|tile| (tile, (size - tile * WIDTH).min(WIDTH)))
        .collect())
}

/// The path of a tile: its number in groups of three digits, `x` before all but the last.
fn name(tile: usize, width: usize) -> PathBuf {
    let digits = tile.to_string();
    let digits = format!("{}{digits}", "0".repeat((3 - digits.len() % 3) % 3));
    let groups = digits.len() / 3;
    let mut path = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at % 3 == 0 {
            path.push_str(if at == 0 { "" } else { "/" });
            path.push_str(if at / 3 + 1 < groups { "x" } else { "" });
        }
        path.push(digit);
    }
    if width < WIDTH {
        path.push_str(&format!(".p/{width}"));
    }
    path.into()
}

/// The entries of a bundle; none if it ends within one.
fn bundle(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (entry, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        entries.push(entry.to_vec());
        bytes = rest;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_named_as_specified() {
        for (tile, width, wanted) in [
            (0, 256, "000"),
            (5, 17, "005.p/17"),
            (1_234_067, 256, "x001/x234/067"),
            (1000, 1, "x001/000.p/1"),
        ] {
            assert_eq!(name(tile, width), Path::new(wanted));
        }
    }

    #[test]
    fn a_bundle_that_is_cut_is_none() {
        let whole = [0, 2, b'a', b'b', 0, 0];
        assert_eq!(bundle(&whole).unwrap(), [b"ab".to_vec(), vec![]]);
        for length in [1, 2, 3, 5] {
            assert_eq!(bundle(&whole[..length]), None);
        }
    }
}
