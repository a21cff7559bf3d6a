//! Rows of a query that runs here whole which have no room in memory: packed and sealed as rows
//! that travel are, in one scratch file of the task that wrote them.
//!
//! Each target has a key of its own, drawn here, which is gone with the rows. Its frames are
//! numbered and the last one says so: a file that was altered, cut, or put back as it was before
//! does not open.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use bytes::Bytes;
use coffer_plan::{
    codec::{Encoder, Packing, decode_batch},
    spill::{Extent, Scratch, SpillFolder},
};
use coffer_sealing::{SpillKey, SpillReader, SpillWriter};
use datafusion_common::{DataFusionError, Result};
use parking_lot::Mutex;

/// What one task is writing.
pub(crate) struct Spilling {
    scratch: Scratch,
    encoder: Encoder,
    targets: Vec<Writing>,
    packed: Vec<u8>,
    sealed: Vec<u8>,
}

#[derive(Default)]
struct Writing {
    /// None as long as it has no rows.
    sealer: Option<(SpillKey, SpillWriter)>,
    frames: Vec<Extent>,
    rows: usize,
}

/// What one task has written.
pub(crate) struct Spilled {
    scratch: Mutex<Scratch>,
    targets: Vec<Written>,
}

struct Written {
    key: Option<SpillKey>,
    frames: Vec<Extent>,
    rows: usize,
}

impl Spilling {
    pub(crate) fn new(
        folder: &Arc<SpillFolder>,
        targets: usize,
        packing: Packing,
    ) -> std::io::Result<Self> {
        Ok(Self {
            scratch: Scratch::create(folder)?,
            encoder: Encoder::new(packing),
            targets: std::iter::repeat_with(Writing::default)
                .take(targets)
                .collect(),
            packed: Vec::new(),
            sealed: Vec::new(),
        })
    }

    /// Appends a frame with the rows of all batches to a target, which must be there.
    pub(crate) fn put(&mut self, target: usize, batches: &[RecordBatch]) -> Result<()> {
        let target = self.targets.get_mut(target).ok_or_else(no_target)?;
        self.packed.clear();
        self.encoder
            .encode(batches, &mut self.packed)
            .map_err(outward)?;
        target.rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        target.seal(&self.packed, false, &mut self.sealed, &mut self.scratch)
    }

    /// Ends all targets.
    pub(crate) fn finish(mut self) -> Result<Spilled> {
        let mut targets = Vec::with_capacity(self.targets.len());
        for mut target in self.targets {
            if target.sealer.is_some() {
                target.seal(&[], true, &mut self.sealed, &mut self.scratch)?;
            }
            targets.push(Written {
                key: target.sealer.map(|(key, _)| key),
                frames: target.frames,
                rows: target.rows,
            });
        }
        Ok(Spilled {
            scratch: Mutex::new(self.scratch),
            targets,
        })
    }
}

impl Writing {
    fn seal(
        &mut self,
        packed: &[u8],
        last: bool,
        sealed: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (_, sealer) = match &mut self.sealer {
            Some(sealer) => sealer,
            None => {
                let mut key = SpillKey::generate().map_err(outward)?;
                let writer = key.writer().map_err(outward)?;
                self.sealer.insert((key, writer))
            }
        };
        sealed.clear();
        sealer.seal(packed, last, sealed).map_err(outward)?;
        self.frames.push(scratch.append(sealed)?);
        Ok(())
    }
}

impl Spilled {
    pub(super) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Bytes on disk, sealed.
    pub(crate) fn bytes(&self) -> u64 {
        self.scratch.lock().len()
    }

    /// How many rows, of all targets.
    pub(super) fn count(&self) -> usize {
        self.targets.iter().map(|target| target.rows).sum()
    }

    /// The rows of a target, in the order in which they came, each frame opened when it is asked
    /// for. Reading blocks: the task's thread is its own.
    pub(super) fn rows(self: &Arc<Self>, target: usize, schema: &SchemaRef) -> Option<Reading> {
        (target < self.targets.len()).then(|| Reading {
            of: Arc::clone(self),
            target,
            schema: Arc::clone(schema),
            next: 0,
            opener: None,
            over: false,
        })
    }
}

/// A target's frames, as they are opened.
pub(crate) struct Reading {
    of: Arc<Spilled>,
    target: usize,
    schema: SchemaRef,
    next: usize,
    opener: Option<SpillReader>,
    over: bool,
}

impl Reading {
    fn frame(&mut self) -> Result<Option<RecordBatch>> {
        let target = self.of.targets.get(self.target).ok_or_else(no_target)?;
        let Some(key) = &target.key else {
            return Ok(None);
        };
        if self.opener.is_none() {
            self.opener = Some(key.reader().map_err(outward)?);
        }
        loop {
            let Some(extent) = target.frames.get(self.next) else {
                // The one that says that it is the last has been opened, and is the last.
                let ended = self.opener.take().map(SpillReader::finish).transpose();
                return ended.map(|_| None).map_err(outward);
            };
            self.next += 1;
            let mut sealed = Vec::with_capacity(extent.len());
            self.of.scratch.lock().read(*extent, &mut sealed)?;
            let Some(opener) = &mut self.opener else {
                return Ok(None);
            };
            let (frame, packed) = opener.open(sealed).map_err(outward)?.into_parts();
            let packed = Bytes::from(frame).slice(packed);
            if let Some(rows) = decode_batch(&self.schema, packed).map_err(outward)? {
                return Ok(Some(rows));
            }
        }
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let frame = self.frame();
        self.over = !matches!(frame, Ok(Some(_)));
        frame.transpose()
    }
}

fn no_target() -> DataFusionError {
    DataFusionError::Internal("an exchange does not have a target of its rows".to_owned())
}

fn outward(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use arrow::{
        array::{ArrayRef, AsArray, Int64Array, StringArray},
        datatypes::Int64Type,
    };

    use super::*;

    const MARK: &str = "a value that must not reach a disk";

    fn batch(values: std::ops::Range<i64>) -> RecordBatch {
        let texts: StringArray = values
            .clone()
            .map(|n| Some(format!("{MARK} {n}")))
            .collect();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        RecordBatch::try_from_iter([("n", numbers), ("s", Arc::new(texts) as ArrayRef)]).unwrap()
    }

    /// Target 0 has 0..5 and 5..9 in two frames, target 1 nothing, target 2 9..10.
    fn spilled(folder: &Arc<SpillFolder>) -> Arc<Spilled> {
        let mut spilling = Spilling::new(folder, 3, Packing::Tight).unwrap();
        spilling.put(0, &[batch(0..3), batch(3..5)]).unwrap();
        spilling.put(2, &[batch(9..10)]).unwrap();
        spilling.put(0, &[batch(5..9)]).unwrap();
        assert!(spilling.put(3, &[batch(0..1)]).is_err());
        Arc::new(spilling.finish().unwrap())
    }

    fn read(spilled: &Arc<Spilled>, target: usize) -> Result<Vec<i64>> {
        let schema = batch(0..0).schema();
        let mut found = Vec::new();
        for rows in spilled.rows(target, &schema).unwrap() {
            let rows = rows?;
            found.extend(rows.column(0).as_primitive::<Int64Type>().values().to_vec());
        }
        Ok(found)
    }

    fn folder() -> (tempfile::TempDir, Arc<SpillFolder>) {
        let parent = tempfile::tempdir().unwrap();
        let folder = SpillFolder::create(parent.path()).unwrap();
        (parent, folder)
    }

    fn files(parent: &tempfile::TempDir) -> Vec<PathBuf> {
        let [folder] = std::fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        let files = std::fs::read_dir(folder).unwrap();
        files.map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn rows_come_back_by_target_as_often_as_they_are_asked_for() {
        let (parent, folder) = folder();
        let spilled = spilled(&folder);
        for _ in 0..2 {
            assert_eq!(read(&spilled, 0).unwrap(), (0..9).collect::<Vec<_>>());
            assert!(read(&spilled, 1).unwrap().is_empty());
            assert_eq!(read(&spilled, 2).unwrap(), [9]);
        }
        assert_eq!((spilled.targets(), spilled.count()), (3, 10));
        assert!(spilled.rows(3, &batch(0..0).schema()).is_none());
        let [file] = files(&parent).try_into().unwrap();
        let stored = std::fs::read(file).unwrap();
        assert!(
            !stored
                .windows(8)
                .any(|bytes| bytes == &MARK.as_bytes()[..8])
        );
        assert_eq!(folder.written(), stored.len() as u64);
        drop(spilled);
        assert!(files(&parent).is_empty());
    }

    #[test]
    fn an_altered_cut_or_older_file_is_refused() {
        let (parent, folder) = folder();
        let older = spilled(&folder);
        let stale = std::fs::read(files(&parent).first().unwrap()).unwrap();
        drop(older);
        let spilled = spilled(&folder);
        let [file] = files(&parent).try_into().unwrap();
        let whole = std::fs::read(&file).unwrap();
        for at in [0, 1, 20, whole.len() / 2, whole.len() - 1] {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            std::fs::write(&file, altered).unwrap();
            assert!(
                [0, 2]
                    .into_iter()
                    .any(|target| read(&spilled, target).is_err())
            );
        }
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        assert!(
            [0, 2]
                .into_iter()
                .any(|target| read(&spilled, target).is_err())
        );
        std::fs::write(&file, stale).unwrap();
        for target in [0, 2] {
            assert!(read(&spilled, target).is_err(), "another file's bytes");
        }
        std::fs::write(&file, whole).unwrap();
        assert_eq!(read(&spilled, 0).unwrap().len(), 9);
    }

    #[test]
    fn an_error_ends_the_rows() {
        let (parent, folder) = folder();
        let spilled = spilled(&folder);
        let [file] = files(&parent).try_into().unwrap();
        std::fs::write(file, b"").unwrap();
        let mut rows = spilled.rows(0, &batch(0..0).schema()).unwrap();
        assert!(rows.next().unwrap().is_err());
        assert!(rows.next().is_none());
    }
}
