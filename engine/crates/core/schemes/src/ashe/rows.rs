//! A set of row numbers, small whether the rows are consecutive, scattered or few.
//!
//! Rows are kept in chunks of 65,536: as runs while those are few, then as a bitmap of 8 KiB.
//! Encoded, each chunk takes whichever is shorter:
//!
//! ```text
//! set    = varint(number of chunks) chunk*
//! chunk  = varint(gap to the chunk before) varint(payload length · 2 + kind) payload
//! kind 0 = runs: varint(gap to the run before · 2 + more), then, if more: varint(rows − 2)
//! kind 1 = bitmap: first byte (u16 LE), then bytes, the lowest bit the first row
//! ```

use crate::SchemeError;

/// Row numbers stay below this.
pub const MAX_ROW: u64 = 1 << 48;

const CHUNK_BITS: u32 = 16;
const CHUNK_WORDS: usize = 1 << (CHUNK_BITS - 6);
/// As many runs as take the room of a bitmap.
const MOST_RUNS: usize = 2_048;

/// A set of row numbers.
#[derive(Debug, Clone, Default)]
pub struct RowSet {
    /// By number, ascending.
    chunks: Vec<Chunk>,
    /// Where the last row went.
    last: usize,
}

/// The rows of one chunk.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    number: u64,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    /// First and last row of each run, ascending, with at least one row between runs.
    Runs(Vec<(u16, u16)>),
    Bits(Box<[u64; CHUNK_WORDS]>),
}

impl RowSet {
    /// Adds a row; `false` if it is there already. Row numbers from [`MAX_ROW`] on are refused.
    pub fn insert(&mut self, row: u64) -> Result<bool, SchemeError> {
        if row >= MAX_ROW {
            return Err(SchemeError::Malformed("a row number"));
        }
        let number = row >> CHUNK_BITS;
        let low =
            u16::try_from(row & u64::from(u16::MAX)).map_err(|_| SchemeError::Internal("row"))?;
        if self
            .chunks
            .get(self.last)
            .is_none_or(|chunk| chunk.number != number)
        {
            self.last = match self
                .chunks
                .binary_search_by_key(&number, |chunk| chunk.number)
            {
                Ok(positions) => positions,
                Err(positions) => {
                    let body = Body::Runs(Vec::new());
                    self.chunks.insert(positions, Chunk { number, body });
                    positions
                }
            };
        }
        match self.chunks.get_mut(self.last) {
            Some(chunk) => Ok(chunk.body.insert(low)),
            None => Err(SchemeError::Internal("row set")),
        }
    }

    /// How many rows.
    pub fn count(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.body.count()).sum()
    }

    /// Calls `visit` with the first and the last row of each run, ascending. A run ends with its
    /// chunk.
    pub fn runs(&self, mut visit: impl FnMut(u64, u64)) {
        self.chunks.iter().for_each(|chunk| chunk.runs(&mut visit));
    }

    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Moves all rows of `other` here that are not here yet; those that are stay there.
    pub(crate) fn absorb(&mut self, other: &mut Self) -> Result<(), SchemeError> {
        let mut left = Self::default();
        for chunk in std::mem::take(&mut other.chunks) {
            match self
                .chunks
                .binary_search_by_key(&chunk.number, |chunk| chunk.number)
            {
                Err(positions) => self.chunks.insert(positions, chunk),
                Ok(_) => {
                    let mut result = Ok(());
                    chunk.runs(|first, last| {
                        for row in first..=last {
                            match self.insert(row) {
                                Ok(true) => {}
                                Ok(false) => result = left.insert(row).map(|_| ()),
                                Err(error) => result = Err(error),
                            }
                        }
                    });
                    result?;
                }
            }
        }
        *other = left;
        Ok(())
    }

    /// Bytes in memory, about.
    pub(crate) fn memory(&self) -> usize {
        let body = |chunk: &Chunk| match &chunk.body {
            Body::Runs(runs) => runs.capacity().saturating_mul(4),
            Body::Bits(_) => CHUNK_WORDS.saturating_mul(8),
        };
        let bodies = self.chunks.iter().map(body).fold(0, usize::saturating_add);
        bodies.saturating_add(
            self.chunks
                .capacity()
                .saturating_mul(std::mem::size_of::<Chunk>()),
        )
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put(out, u64::try_from(self.chunks.len()).unwrap_or(0));
        let mut next = 0;
        for chunk in &self.chunks {
            put(out, chunk.number.saturating_sub(next));
            next = chunk.number.saturating_add(1);
            chunk.body.encode(out);
        }
    }

    /// Reads a set off the front of `bytes`. Refuses what is not in order, so that each set has few
    /// encodings and no row counts twice.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Result<Self, SchemeError> {
        let bad = SchemeError::Malformed("a set of rows");
        let chunks = take(bytes)?;
        // Each chunk takes two bytes at least: no number of them makes us claim more memory than
        // the input is worth.
        if chunks > u64::try_from(bytes.len()).unwrap_or(0) {
            return Err(bad);
        }
        let mut set = Self::default();
        let mut next = 0_u64;
        for _ in 0..chunks {
            let number = next
                .checked_add(take(bytes)?)
                .filter(|number| *number < MAX_ROW >> CHUNK_BITS);
            let number = number.ok_or(bad.clone())?;
            next = number.saturating_add(1);
            let header = take(bytes)?;
            let length = usize::try_from(header >> 1).map_err(|_| bad.clone())?;
            let (payload, rest) = bytes.split_at_checked(length).ok_or(bad.clone())?;
            *bytes = rest;
            let body = if header & 1 == 0 {
                Body::of_runs(payload)
            } else {
                Body::of_bytes(payload)
            };
            set.chunks.push(Chunk {
                number,
                body: body.ok_or(bad.clone())?,
            });
        }
        Ok(set)
    }
}

impl Chunk {
    pub(crate) fn runs(&self, mut visit: impl FnMut(u64, u64)) {
        let start = self.number << CHUNK_BITS;
        self.body
            .runs(|first, last| visit(start | u64::from(first), start | u64::from(last)));
    }
}

impl PartialEq for RowSet {
    fn eq(&self, other: &Self) -> bool {
        self.chunks == other.chunks
    }
}

impl Eq for RowSet {}

/// The same rows, in whatever form.
impl PartialEq for Chunk {
    fn eq(&self, other: &Self) -> bool {
        let runs = |chunk: &Self| {
            let mut runs = Vec::new();
            chunk.runs(|first, last| runs.push((first, last)));
            runs
        };
        runs(self) == runs(other)
    }
}

impl Eq for Chunk {}

impl Body {
    fn insert(&mut self, row: u16) -> bool {
        match self {
            Self::Bits(words) => set(words, row),
            Self::Runs(runs) => {
                match runs.last_mut() {
                    Some((_, last)) if last.checked_add(1) == Some(row) => {
                        *last = row;
                        return true;
                    }
                    Some((_, last)) if row <= *last => {
                        let at = runs.partition_point(|(first, _)| *first <= row);
                        return insert_before(runs, at, row);
                    }
                    _ => {}
                }
                if runs.len() < MOST_RUNS {
                    runs.push((row, row));
                    return true;
                }
                let mut words = self.words();
                let new = set(&mut words, row);
                *self = Self::Bits(words);
                new
            }
        }
    }

    fn words(&self) -> Box<[u64; CHUNK_WORDS]> {
        let mut words = Box::new([0; CHUNK_WORDS]);
        self.runs(|first, last| {
            for row in first..=last {
                set(&mut words, row);
            }
        });
        words
    }

    fn count(&self) -> u64 {
        match self {
            Self::Bits(words) => words.iter().map(|word| u64::from(word.count_ones())).sum(),
            Self::Runs(runs) => runs
                .iter()
                .map(|(first, last)| u64::from(last.abs_diff(*first)).saturating_add(1))
                .sum(),
        }
    }

    fn runs(&self, mut visit: impl FnMut(u16, u16)) {
        match self {
            Self::Runs(runs) => runs.iter().for_each(|(first, last)| visit(*first, *last)),
            Self::Bits(words) => {
                let mut open: Option<(u16, u16)> = None;
                for (number, word) in words.iter().enumerate() {
                    let start = u16::try_from(number.wrapping_mul(64)).unwrap_or(0);
                    let mut rest = *word;
                    while rest != 0 {
                        let skip = rest.trailing_zeros();
                        let ones = (rest >> skip).trailing_ones();
                        let first = start.wrapping_add(u16::try_from(skip).unwrap_or(0));
                        let last =
                            first.wrapping_add(u16::try_from(ones.saturating_sub(1)).unwrap_or(0));
                        open = match open {
                            Some((begun, end)) if end.checked_add(1) == Some(first) => {
                                Some((begun, last))
                            }
                            Some((begun, end)) => {
                                visit(begun, end);
                                Some((first, last))
                            }
                            None => Some((first, last)),
                        };
                        rest = rest
                            .checked_shr(skip.saturating_add(ones))
                            .map_or(0, |high| {
                                high.checked_shl(skip.saturating_add(ones)).unwrap_or(0)
                            });
                    }
                }
                if let Some((first, last)) = open {
                    visit(first, last);
                }
            }
        }
    }

    /// First and last row.
    fn ends(&self) -> (u16, u16) {
        let ends = match self {
            Self::Runs(runs) => runs
                .first()
                .zip(runs.last())
                .map(|(first, last)| (first.0, last.1)),
            Self::Bits(words) => {
                let positions = |number: usize, bit: u32| {
                    let bit = usize::try_from(bit).unwrap_or(0);
                    u16::try_from(number.wrapping_mul(64).wrapping_add(bit)).unwrap_or(0)
                };
                let mut set = words.iter().enumerate().filter(|(_, word)| **word != 0);
                let first = set.next();
                let last = set.next_back().or(first);
                let first = first.map(|(number, word)| positions(number, word.trailing_zeros()));
                first.zip(last.map(|(number, word)| {
                    positions(number, 63_u32.saturating_sub(word.leading_zeros()))
                }))
            }
        };
        ends.unwrap_or((0, 0))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let (first, last) = self.ends();
        let (start, end) = (usize::from(first / 8), usize::from(last / 8));
        let bitmap = end.saturating_sub(start).saturating_add(3);
        // A run takes a byte at least.
        let runs = self.encode_runs(bitmap);
        if let Some(runs) = runs.filter(|runs| runs.len() <= bitmap) {
            put(out, u64::try_from(runs.len()).unwrap_or(0) << 1);
            out.extend_from_slice(&runs);
            return;
        }
        put(out, (u64::try_from(bitmap).unwrap_or(0) << 1) | 1);
        out.extend_from_slice(&(first / 8).to_le_bytes());
        let bytes: Vec<u8> = match self {
            Self::Bits(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            Self::Runs(_) => self
                .words()
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect(),
        };
        out.extend_from_slice(bytes.get(start..=end).unwrap_or_default());
    }

    /// The runs as bytes; none if there are more than `most` of them.
    fn encode_runs(&self, most: usize) -> Option<Vec<u8>> {
        if let Self::Bits(words) = self
            && count_runs(words) > most
        {
            return None;
        }
        let mut runs = Vec::new();
        let mut next = 0_u64;
        self.runs(|first, last| {
            let more = u64::from(last.abs_diff(first));
            put(
                &mut runs,
                (u64::from(first).saturating_sub(next) << 1) | u64::from(more > 0),
            );
            if more > 0 {
                put(&mut runs, more.saturating_sub(1));
            }
            next = u64::from(last).saturating_add(1);
        });
        Some(runs)
    }

    fn of_runs(mut payload: &[u8]) -> Option<Self> {
        let mut runs = Vec::new();
        let mut next = 0_u64;
        while !payload.is_empty() {
            let gap = take(&mut payload).ok()?;
            let first = next.checked_add(gap >> 1)?;
            let more = if gap & 1 == 0 {
                0
            } else {
                take(&mut payload).ok()?.checked_add(1)?
            };
            let last = u16::try_from(first.checked_add(more)?).ok()?;
            match runs.last_mut() {
                // Runs that touch are one.
                Some((_, end)) if gap >> 1 == 0 => *end = last,
                _ => runs.push((u16::try_from(first).ok()?, last)),
            }
            next = u64::from(last).saturating_add(1);
        }
        if runs.is_empty() {
            return None;
        }
        if runs.len() > MOST_RUNS {
            return Some(Self::Bits(Self::Runs(runs).words()));
        }
        Some(Self::Runs(runs))
    }

    fn of_bytes(payload: &[u8]) -> Option<Self> {
        let (start, bytes) = payload.split_first_chunk::<2>()?;
        let start = usize::from(u16::from_le_bytes(*start));
        if bytes.is_empty() || start.checked_add(bytes.len())? > CHUNK_WORDS.saturating_mul(8) {
            return None;
        }
        let mut words = Box::new([0_u64; CHUNK_WORDS]);
        for (positions, byte) in bytes.iter().enumerate() {
            let positions = start.saturating_add(positions);
            *words.get_mut(positions / 8)? |= u64::from(*byte) << ((positions % 8) << 3);
        }
        // Few rows are runs, whatever form they came in: so that memory stays in proportion to the
        // bytes.
        let count = count_runs(&words);
        let bits = Self::Bits(words);
        if count > MOST_RUNS {
            return Some(bits);
        }
        let mut runs = Vec::with_capacity(count);
        bits.runs(|first, last| runs.push((first, last)));
        (count > 0).then_some(Self::Runs(runs))
    }
}

/// How many runs of ones there are.
fn count_runs(words: &[u64; CHUNK_WORDS]) -> usize {
    let mut before = 0;
    let mut runs = 0_u32;
    for word in words {
        // A run starts where a one follows a zero.
        runs = runs.saturating_add((word & !((word << 1) | before)).count_ones());
        before = word >> 63;
    }
    usize::try_from(runs).unwrap_or(usize::MAX)
}

/// `at` is the first run that starts behind `row`.
fn insert_before(runs: &mut Vec<(u16, u16)>, at: usize, row: u16) -> bool {
    let before = at.checked_sub(1).and_then(|at| runs.get(at)).copied();
    if before.is_some_and(|(_, last)| row <= last) {
        return false;
    }
    let touches_before = before.is_some_and(|(_, last)| last.checked_add(1) == Some(row));
    let after = runs
        .get(at)
        .copied()
        .filter(|(first, _)| row.checked_add(1) == Some(*first));
    match (touches_before, after) {
        (true, Some((_, last))) => {
            runs.remove(at);
            if let Some(run) = runs.get_mut(at.saturating_sub(1)) {
                run.1 = last;
            }
        }
        (true, None) => {
            if let Some(run) = runs.get_mut(at.saturating_sub(1)) {
                run.1 = row;
            }
        }
        (false, Some(_)) => {
            if let Some(run) = runs.get_mut(at) {
                run.0 = row;
            }
        }
        (false, None) => runs.insert(at, (row, row)),
    }
    true
}

/// Sets a bit; `false` if it was set.
fn set(words: &mut [u64; CHUNK_WORDS], row: u16) -> bool {
    let bit = 1_u64 << (row % 64);
    match words.get_mut(usize::from(row / 64)) {
        Some(word) => {
            let new = *word & bit == 0;
            *word |= bit;
            new
        }
        None => false,
    }
}

/// LEB128.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

/// The number that [`put`] wrote, at most ten bytes.
pub(crate) fn take(bytes: &mut &[u8]) -> Result<u64, SchemeError> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes
            .split_first()
            .ok_or(SchemeError::Malformed("a number"))?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part.wrapping_shl(shift) >> shift != part {
            break;
        }
        number |= part.wrapping_shl(shift);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(SchemeError::Malformed("a number"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn encoded(set: &RowSet) -> Vec<u8> {
        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        bytes
    }

    fn of(rows: impl IntoIterator<Item = u64>) -> RowSet {
        let mut set = RowSet::default();
        rows.into_iter()
            .for_each(|row| assert!(set.insert(row).unwrap()));
        set
    }

    #[test]
    fn sizes() {
        assert!(encoded(&of(0..1_000_000)).len() < 120);
        assert!(encoded(&of([1 << 40])).len() < 16);
        // One row in three: a bitmap. One in a hundred: a byte or two each.
        assert!(encoded(&of((0..300_000).step_by(3))).len() < 300_000 / 8 + 60);
        assert!(encoded(&of((0..1_000_000).step_by(100))).len() < 21_000);
    }

    #[test]
    fn malformed_sets_are_refused() {
        let good = encoded(&of([5, 6, 9, 70_000]));
        assert!(RowSet::decode(&mut &good[..]).is_ok());
        for end in 0..good.len() {
            assert!(RowSet::decode(&mut &good[..end]).is_err(), "{end}");
        }
        let bad: [&[u8]; 6] = [
            &[1, 0, 0],                                                 // an empty chunk
            &[1, 0, 7, 0, 32, 1],               // a bitmap past the chunk's end
            &[1, 0, 7, 0, 0, 0],                // a bitmap of nothing
            &[1, 0, 8, 0xff, 0xff, 0xff, 0x7f], // a run past the chunk's end
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], // more chunks than bytes
            &[1, 0xff, 0xff, 0xff, 0xff, 0x7f, 2, 0], // a chunk past the last row
        ];
        for (number, bytes) in bad.iter().enumerate() {
            assert!(RowSet::decode(&mut &bytes[..]).is_err(), "{number}");
        }
        assert!(RowSet::default().insert(MAX_ROW).is_err());
    }

    proptest! {
        #[test]
        fn it_is_a_set(rows in prop::collection::vec(prop_oneof![0_u64..300, 0_u64..200_000,
            0..MAX_ROW], 0..400), dense: bool) {
            let mut set = RowSet::default();
            let mut expected = BTreeSet::new();
            let extra = if dense { (0..20_000).step_by(2).collect() } else { vec![] };
            for row in extra.into_iter().chain(rows) {
                prop_assert_eq!(set.insert(row).unwrap(), expected.insert(row));
            }
            prop_assert_eq!(set.count(), expected.len() as u64);
            let mut found = Vec::new();
            set.runs(|first, last| found.extend(first..=last));
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
            let bytes = encoded(&set);
            let mut rest = &bytes[..];
            let back = RowSet::decode(&mut rest).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(&back.chunks, &set.chunks);
        }

        #[test]
        fn absorbing_leaves_what_is_there_twice(left: BTreeSet<u16>, right: BTreeSet<u16>) {
            let rows = |set: &BTreeSet<u16>| of(set.iter().map(|row| u64::from(*row)));
            let (mut here, mut there) = (rows(&left), rows(&right));
            here.absorb(&mut there).unwrap();
            prop_assert_eq!(here.count(), left.union(&right).count() as u64);
            prop_assert_eq!(there.count(), left.intersection(&right).count() as u64);
        }

        #[test]
        fn hostile_bytes_end_in_an_error_or_a_set(bytes: Vec<u8>) {
            if let Ok(set) = RowSet::decode(&mut &bytes[..]) {
                set.count();
            }
        }
    }
}
