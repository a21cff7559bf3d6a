//! Text, a row for each line: the column `value`, as Spark's text source has it. A line ends with a
//! line feed, a carriage return, or both, and a byte order mark before the first is no part of it.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch, StringBuilder},
    datatypes::SchemaRef,
};
use coffer_format::SparkType;

use super::{UNIT_ROWS, malformed};
use crate::failure::Failure;

const BATCH_ROWS: u64 = 16 * 1024;
const BATCH_BYTES: usize = 16 << 20;
/// A batch has less than two GiB.
const LONGEST: usize = 1 << 30;
const UNIT_BYTES: u64 = 256 << 20;
const LEAST_BYTES: u64 = 8 << 20;
const MARK: &[u8] = b"\xef\xbb\xbf";

pub(crate) struct TextSource {
    units: Vec<Unit>,
    pub(crate) columns: Vec<(String, SparkType, bool)>,
    pub(crate) rows: u64,
}

/// Whole lines of one file.
struct Unit {
    file: PathBuf,
    begin: u64,
    end: u64,
    first_line: u64,
    lines: u64,
}

impl TextSource {
    pub(crate) fn open(files: Vec<PathBuf>, threads: usize) -> Result<Self, Failure> {
        let mut units = Vec::new();
        for file in files {
            units.extend(scan(&file, threads)?);
        }
        Ok(Self {
            rows: units.iter().map(|unit| unit.lines).sum(),
            units,
            columns: vec![("value".to_owned(), SparkType::String, true)],
        })
    }

    pub(crate) fn units(&self) -> usize {
        self.units.len()
    }

    pub(crate) fn read(
        &self,
        unit: usize,
        schema: &SchemaRef,
        take: &mut dyn FnMut(RecordBatch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(unit) = self.units.get(unit) else {
            return Ok(());
        };
        let mut batch = Batch::default();
        unit.each(&mut |line| {
            if line.len() > LONGEST {
                return Err(malformed(&unit.file, "a line has more than 1 GiB"));
            }
            batch.values.append_value(line);
            batch.rows = batch.rows.saturating_add(1);
            if batch.rows >= BATCH_ROWS || batch.values.values_slice().len() >= BATCH_BYTES {
                take(batch.finish(schema, &unit.file)?)?;
            }
            Ok(())
        })?;
        if batch.rows > 0 {
            take(batch.finish(schema, &unit.file)?)?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Batch {
    values: StringBuilder,
    rows: u64,
}

impl Batch {
    fn finish(&mut self, schema: &SchemaRef, file: &Path) -> Result<RecordBatch, Failure> {
        self.rows = 0;
        let values: ArrayRef = Arc::new(self.values.finish());
        RecordBatch::try_new(Arc::clone(schema), vec![values])
            .map_err(|error| malformed(file, error))
    }
}

impl Unit {
    /// Hands each line to `take`, in order.
    fn each(&self, take: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure> {
        let failed = |error| Failure::io("read", &self.file, error);
        let mut file = File::open(&self.file).map_err(failed)?;
        file.seek(SeekFrom::Start(self.begin)).map_err(failed)?;
        let length = self.end.saturating_sub(self.begin);
        let mut reader = BufReader::with_capacity(1 << 20, file.take(length));
        let (mut bytes, mut number) = (Vec::new(), self.first_line);
        loop {
            bytes.clear();
            if reader.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
                return Ok(());
            }
            // The last end is that of the last line; another one before it is of a line of its own.
            let rest = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
            for line in rest.split(|byte| *byte == b'\r') {
                let line = std::str::from_utf8(line)
                    .map_err(|_| malformed(&self.file, format!("line {number} is not UTF-8")))?;
                take(line)?;
                number = number.saturating_add(1);
            }
        }
    }
}

/// Cuts a file into units behind line feeds, and counts its lines.
fn scan(path: &Path, threads: usize) -> Result<Vec<Unit>, Failure> {
    let failed = |error| Failure::io("read", path, error);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let share = length.div_ceil(u64::try_from(threads.max(1)).unwrap_or(1));
    let target = share.clamp(LEAST_BYTES, UNIT_BYTES);
    let mut mark = Vec::new();
    file.by_ref()
        .take(u64::try_from(MARK.len()).unwrap_or(0))
        .read_to_end(&mut mark)
        .map_err(failed)?;
    let mut position = match mark.as_slice() {
        MARK => u64::try_from(MARK.len()).unwrap_or(0),
        _ => 0,
    };
    file.seek(SeekFrom::Start(position)).map_err(failed)?;
    let (mut units, mut buffer) = (Vec::new(), vec![0_u8; 1 << 20]);
    let (mut begin, mut lines, mut first_line, mut before) = (position, 0_u64, 1_u64, b'\n');
    let mut cut = |begin: u64, end: u64, first_line: u64, lines: u64| {
        if lines > 0 {
            units.push(Unit {
                file: path.to_owned(),
                begin,
                end,
                first_line,
                lines,
            });
        }
    };
    loop {
        let read = file.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            break;
        }
        for byte in buffer.get(..read).unwrap_or_default() {
            position = position.saturating_add(1);
            // A carriage return has ended the line that a line feed behind it would.
            let ends = *byte == b'\r' || (*byte == b'\n' && before != b'\r');
            before = *byte;
            lines = lines.saturating_add(u64::from(ends));
            if *byte == b'\n' && (position.saturating_sub(begin) >= target || lines >= UNIT_ROWS) {
                cut(begin, position, first_line, lines);
                (begin, first_line, lines) = (position, first_line.saturating_add(lines), 0);
            }
        }
    }
    if !matches!(before, b'\n' | b'\r') {
        lines = lines.saturating_add(1);
    }
    cut(begin, position, first_line, lines);
    Ok(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Result<Vec<String>, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, bytes).unwrap();
        let source = TextSource::open(vec![path], 2)?;
        let mut found = Vec::new();
        for unit in &source.units {
            unit.each(&mut |line| {
                found.push(line.to_owned());
                Ok(())
            })?;
        }
        assert_eq!(u64::try_from(found.len()).unwrap(), source.rows);
        Ok(found)
    }

    #[test]
    fn lines_end_as_in_spark() {
        for (text, wanted) in [
            (&b""[..], vec![]),
            (b"\n", vec![""]),
            (b"a\nb", vec!["a", "b"]),
            (b"a\nb\n", vec!["a", "b"]),
            (b"a\r\nb\r\n", vec!["a", "b"]),
            (b"a\rb\r", vec!["a", "b"]),
            (b"a\r\r\nb", vec!["a", "", "b"]),
            (b"a\n\n\nb", vec!["a", "", "", "b"]),
            (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", vec!["a", "\u{feff}b"]),
            ("ä,\"b\n".as_bytes(), vec!["ä,\"b"]),
        ] {
            assert_eq!(lines(text).unwrap(), wanted, "{text:?}");
        }
    }

    #[test]
    fn units_hold_all_lines() {
        let text = "0123456789abcdef\n".repeat(1 << 21);
        let found = lines(text.as_bytes()).unwrap();
        assert_eq!(found.len(), 1 << 21);
        assert!(found.iter().all(|line| line == "0123456789abcdef"));
    }

    #[test]
    fn text_that_is_not_utf_8_is_refused() {
        assert!(lines(b"a\nb\xff\n").is_err());
    }
}
