//! SPLASHE, enhanced (Papadimitriou et al., "Big Data Analytics over Encrypted Datasets with Seabed", OSDI 2016): a
//! dimension of few values, and a measure summed by it, without showing how frequent each value is.
//!
//! Each *frequent* value of the dimension gets two `ashe` columns of its own: in the value's rows they hold one and the
//! measure, in all others zero. The *rest* share two such columns and a `det` column; there the rows of frequent values,
//! which need no `det` value, are given values of the rest, so that all of them are equally frequent. Cells without a value
//! are encryptions of zero, never NULL, or they would tell what the scheme hides.
//!
//! So `SELECT d, COUNT(*), SUM(m) … GROUP BY d` is the sums of each frequent value's columns, and of the rest's by their `det`
//! value: without a key, in one pass. It is not a [`Scheme`], which makes one column of one.
//!
//! What the host learns: how many values are frequent, how many are not, and the equality of the `det` values, decoys
//! among them. A column is encrypted a file at a time, and refused where its frequencies are
//! too far from the plan's to be levelled.

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef, Int8Array, cast::AsArray};
use arrow_schema::DataType;

use crate::aes::Keystream;
use crate::codec::{self, Cells};
use crate::{Ashe, ColumnSpec, Det, Domain, FileId, Place, Scheme, SchemeError, SchemeKey};

const NAME: &str = "splashe";

/// Which values of a dimension are frequent: the owner's secret, kept with the key.
#[derive(Clone, Default)]
pub struct SplashePlan {
    frequent: Vec<Value>,
    rest: Vec<Value>,
}

/// A value's canonical bytes; none for NULL, which is always frequent.
pub type Value = Option<Vec<u8>>;

impl SplashePlan {
    /// The fewest frequent values that let all others be levelled, for the frequencies of a whole column.
    pub fn of(column: &dyn Array) -> Result<Self, SchemeError> {
        let mut counts: HashMap<Value, u64> = HashMap::new();
        for value in values(column)? {
            let count = counts.entry(value).or_default();
            *count = count.saturating_add(1);
        }
        let mut counts: Vec<(Value, u64)> = counts.into_iter().collect();
        // NULL first, then the most frequent; bytes decide between equals, so that a plan is repeatable.
        counts.sort_by(|(a, n), (b, m)| b.is_none().cmp(&a.is_none()).then(m.cmp(n)).then(a.cmp(b)));
        let nulls = counts.iter().take_while(|(value, _)| value.is_none()).count();
        let sum = |part: &[(Value, u64)]| part.iter().map(|(_, count)| *count).sum::<u64>();
        let enough = |frequent: usize| {
            let (own, rest) = counts.split_at_checked(frequent).unwrap_or((&counts, &[]));
            let level = rest.first().map_or(0, |(_, count)| *count);
            let wanted = u64::try_from(rest.len()).unwrap_or(u64::MAX).saturating_mul(level);
            sum(own) >= wanted.saturating_sub(sum(rest))
        };
        let frequent = (nulls..counts.len()).find(|k| enough(*k)).unwrap_or(counts.len());
        let rest = counts.split_off(frequent);
        let names = |part: Vec<(Value, u64)>| part.into_iter().map(|(value, _)| value).collect();
        Ok(Self {
            frequent: names(counts),
            rest: names(rest),
        })
    }

    /// The values with columns of their own, in the columns' order.
    pub fn frequent(&self) -> &[Value] {
        &self.frequent
    }

    /// All others.
    pub fn rest(&self) -> &[Value] {
        &self.rest
    }
}

/// The schemes of a splayed dimension and its measure.
pub struct Splashe {
    plan: SplashePlan,
    dimension: DataType,
    shuffles: SchemeKey,
    /// For each frequent value, then for the rest.
    cells: Vec<CellSchemes>,
    rest: Det,
}

/// The schemes of one value's columns.
pub struct CellSchemes {
    /// Of ones and zeros: opens counts.
    pub count: Ashe,
    /// Of the measure and zeros: opens sums.
    pub sum: Ashe,
}

/// The stored columns of one value.
pub struct CellColumns {
    /// `ashe`: one in the value's rows.
    pub count: ArrayRef,
    /// `ashe`: the measure in the value's rows.
    pub sum: ArrayRef,
}

/// The stored columns of a splayed dimension and its measure.
pub struct SplasheColumns {
    /// For each frequent value in the plan's order, then for the rest.
    pub cells: Vec<CellColumns>,
    /// `det`: the rest's values and the decoys; none if all values are frequent.
    pub rest: Option<ArrayRef>,
}

impl Splashe {
    /// For a dimension and a measure, which is an integer or decimal without NULLs.
    pub fn new(
        key: &SchemeKey,
        plan: SplashePlan,
        dimension: &ColumnSpec,
        measure: &ColumnSpec,
    ) -> Result<Self, SchemeError> {
        let root = key.root(NAME)?;
        let whole = measure.domain.or_else(|| Domain::of_type(&measure.data_type));
        // Zero is in every cell.
        let whole = whole.map(|domain| Domain::new(domain.min().min(0), domain.max().max(0)));
        let measure = ColumnSpec {
            domain: whole.transpose()?,
            ..measure.clone()
        };
        let bit = ColumnSpec::new(DataType::Int8).with_domain(Domain::new(0, 1)?);
        let derive = |label, number: usize| {
            let number = u64::try_from(number).map_err(|_| SchemeError::Internal("splashe"))?;
            Ok::<_, SchemeError>(SchemeKey::from_secret(&root.derive(label, &[&number.to_le_bytes()])?))
        };
        let cells = (0..=plan.frequent.len()).map(|number| {
            Ok(CellSchemes {
                count: Ashe::new(&derive("count", number)?, &bit)?,
                sum: Ashe::new(&derive("sum", number)?, &measure)?,
            })
        });
        Ok(Self {
            cells: cells.collect::<Result<_, SchemeError>>()?,
            rest: Det::new(&derive("rest", 0)?, dimension)?,
            shuffles: derive("shuffle", 0)?,
            dimension: dimension.data_type.clone(),
            plan,
        })
    }

    /// The schemes that open what was summed, in the order of [`SplasheColumns::cells`].
    pub fn cells(&self) -> &[CellSchemes] {
        &self.cells
    }

    /// The scheme of the rest's values.
    pub fn rest(&self) -> &Det {
        &self.rest
    }

    /// The stored columns of a whole file.
    pub fn encrypt(
        &self,
        dimension: &dyn Array,
        measure: &dyn Array,
        file: FileId,
    ) -> Result<SplasheColumns, SchemeError> {
        crate::scheme::check_type(dimension, &self.dimension)?;
        if dimension.len() != measure.len() {
            return Err(SchemeError::WrongLength {
                left: dimension.len(),
                right: measure.len(),
            });
        }
        if let Some(row) = (0..measure.len()).find(|row| measure.is_null(*row)) {
            return Err(SchemeError::Null { row });
        }
        let places = self.places(dimension)?;
        let shared = self.plan.frequent.len();
        let place = Place::File { file, first_row: 0 };
        let zeros = zeros(measure.data_type(), measure.len())?;
        let cells = self.cells.iter().enumerate().map(|(number, schemes)| {
            let here: Vec<bool> = places.iter().map(|place| (*place).min(shared) == number).collect();
            let ones: Int8Array = here.iter().map(|here| Some(i8::from(*here))).collect();
            Ok(CellColumns {
                count: schemes.count.encrypt(&ones, place)?,
                sum: schemes.sum.encrypt(&choose(measure, &zeros, &here)?, place)?,
            })
        });
        let cells = cells.collect::<Result<Vec<_>, SchemeError>>()?;
        let rest = if self.plan.rest.is_empty() {
            None
        } else {
            Some(self.levelled(&places, file)?)
        };
        Ok(SplasheColumns { cells, rest })
    }

    /// For each row the number of its value: frequent ones, then the rest.
    fn places(&self, dimension: &dyn Array) -> Result<Vec<usize>, SchemeError> {
        let all = self.plan.frequent.iter().chain(&self.plan.rest);
        let numbers: HashMap<&Value, usize> = all.enumerate().map(|(number, value)| (value, number)).collect();
        values(dimension)?
            .iter()
            .map(|value| numbers.get(value).copied().ok_or(SchemeError::Unbalanced))
            .collect()
    }

    /// The `det` column in which every value of the rest is as frequent as the others.
    fn levelled(&self, places: &[usize], file: FileId) -> Result<ArrayRef, SchemeError> {
        let (shared, kinds) = (self.plan.frequent.len(), self.plan.rest.len());
        let mut counts = vec![0_usize; kinds];
        for place in places {
            if let Some(count) = place.checked_sub(shared).and_then(|kind| counts.get_mut(kind)) {
                *count = count.saturating_add(1);
            }
        }
        let mut random = Shuffle::new(&self.shuffles, file)?;
        // rows / kinds each; who gets one of the rows left over is drawn, among those that already have as many first.
        let level = places.len() / kinds.max(1);
        let over = places.len() % kinds.max(1);
        let mut order: Vec<usize> = (0..kinds).collect();
        random.shuffle(&mut order)?;
        order.sort_by_key(|kind| counts.get(*kind).is_none_or(|count| *count <= level));
        let mut decoys = Vec::with_capacity(places.len());
        for (rank, kind) in order.into_iter().enumerate() {
            let wanted = level.saturating_add(usize::from(rank < over));
            let have = counts.get(kind).copied().unwrap_or(0);
            let missing = wanted.checked_sub(have).ok_or(SchemeError::Unbalanced)?;
            decoys.extend(std::iter::repeat_n(kind, missing));
        }
        random.shuffle(&mut decoys)?;
        let sealed = self.rest.encrypt(&self.rest_values()?, Place::Anywhere)?;
        let sealed = sealed.as_binary::<i32>();
        let mut data = Vec::new();
        let mut lengths = Vec::with_capacity(places.len());
        for place in places {
            let kind = match place.checked_sub(shared) {
                Some(kind) => kind,
                None => decoys.pop().ok_or(SchemeError::Internal("splashe decoys"))?,
            };
            let value = if kind < sealed.len() { sealed.value(kind) } else { &[] };
            data.extend_from_slice(value);
            lengths.push(value.len());
        }
        codec::binary(lengths, data, None)
    }

    /// The rest as a column of the dimension's type.
    fn rest_values(&self) -> Result<ArrayRef, SchemeError> {
        let bytes: Vec<&[u8]> = self.plan.rest.iter().flatten().map(Vec::as_slice).collect();
        let data = bytes.concat();
        match codec::width(NAME, &self.dimension)? {
            Some(_) => codec::decode_fixed(NAME, &self.dimension, &data, None),
            None => codec::decode_variable(NAME, &self.dimension, bytes.iter().map(|b| b.len()), data, None),
        }
    }
}

/// A column's values as canonical bytes.
fn values(column: &dyn Array) -> Result<Vec<Value>, SchemeError> {
    let valid = |(row, value): (usize, &[u8])| column.is_valid(row).then(|| value.to_vec());
    Ok(match codec::encode(NAME, column, column.data_type())? {
        Cells::Fixed { width, bytes } => bytes.chunks_exact(width).enumerate().map(valid).collect(),
        Cells::Variable { offsets, data } => codec::values(offsets, data).enumerate().map(valid).collect(),
    })
}

/// A column of zeros.
fn zeros(data_type: &DataType, rows: usize) -> Result<ArrayRef, SchemeError> {
    let width = codec::width(NAME, data_type)?.unwrap_or(0);
    codec::decode_fixed(NAME, data_type, &vec![0; rows.saturating_mul(width)], None)
}

/// The measure where `here`, else zero.
fn choose(measure: &dyn Array, zeros: &ArrayRef, here: &[bool]) -> Result<ArrayRef, SchemeError> {
    let fixed = |column| match codec::encode(NAME, column, measure.data_type())? {
        Cells::Fixed { width, bytes } => Ok((width, bytes)),
        Cells::Variable { .. } => Err(codec::unsupported(NAME, measure.data_type())),
    };
    let (width, mut bytes) = fixed(measure)?;
    let (_, nothing) = fixed(zeros.as_ref())?;
    for ((value, zero), here) in bytes.chunks_exact_mut(width).zip(nothing.chunks_exact(width)).zip(here) {
        if !here {
            value.copy_from_slice(zero);
        }
    }
    codec::decode_fixed(NAME, measure.data_type(), &bytes, None)
}

/// Random numbers of one file: the same file is encrypted the same way.
struct Shuffle {
    stream: Keystream,
    next: u128,
}

impl Shuffle {
    fn new(key: &SchemeKey, file: FileId) -> Result<Self, SchemeError> {
        let secret = key.root(NAME)?.derive("file", &[&file])?;
        Ok(Self {
            stream: Keystream::new(secret.expose())?,
            next: 0,
        })
    }

    /// Fisher and Yates; the bias of the remainder is below 2^-90.
    fn shuffle(&mut self, items: &mut [usize]) -> Result<(), SchemeError> {
        for last in (1..items.len()).rev() {
            let mut block = [0; 16];
            self.stream.apply(self.next.to_be_bytes(), &mut block)?;
            self.next = self.next.wrapping_add(1);
            let bound = u128::try_from(last).unwrap_or(0).saturating_add(1);
            let other = u128::from_be_bytes(block).checked_rem(bound).unwrap_or(0);
            items.swap(last, usize::try_from(other).unwrap_or(0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow_array::{Int32Array, StringArray, types::Int64Type};
    use proptest::prelude::*;

    use super::*;
    use crate::{AsheSum, SumOpening};

    const FILE: FileId = [1; 16];

    fn splashe(dimension: &StringArray) -> Splashe {
        let plan = SplashePlan::of(dimension).unwrap();
        Splashe::new(
            &SchemeKey::from_bytes(&[7; 32]),
            plan,
            &ColumnSpec::new(DataType::Utf8),
            &ColumnSpec::new(DataType::Int32),
        )
        .unwrap()
    }

    fn text(value: &str) -> Value {
        Some(value.as_bytes().to_vec())
    }

    /// `GROUP BY` as a host would do it, opened: value → (count, sum).
    fn grouped(scheme: &Splashe, stored: &SplasheColumns) -> BTreeMap<Value, (u64, i128)> {
        let mut groups = BTreeMap::new();
        let rows = stored.cells[0].count.len();
        let total = |column: &ArrayRef, opens: &Ashe, rows: &[usize]| {
            let mut sum = AsheSum::default();
            let values = column.as_primitive::<Int64Type>();
            rows.iter()
                .for_each(|row| sum.add(values.value(*row), &FILE, *row as u64).unwrap());
            opens
                .open_sum(&sum)
                .unwrap()
                .unwrap_or(SumOpening { sum: 0, count: 0 })
                .sum
        };
        let mut open = |name: Value, cell: usize, rows: &[usize]| {
            let (columns, schemes) = (&stored.cells[cell], &scheme.cells()[cell]);
            let count = total(&columns.count, &schemes.count, rows) as u64;
            if count > 0 {
                groups.insert(name, (count, total(&columns.sum, &schemes.sum, rows)));
            }
        };
        let all: Vec<usize> = (0..rows).collect();
        let frequent = scheme.plan.frequent().to_vec();
        for (cell, value) in frequent.iter().enumerate() {
            open(value.clone(), cell, &all);
        }
        if let Some(rest) = &stored.rest {
            let names = scheme.rest().decrypt(rest, Place::Anywhere).unwrap();
            let names = names.as_string::<i32>();
            for value in scheme.plan.rest() {
                let rows: Vec<usize> = (0..rows).filter(|row| text(names.value(*row)) == *value).collect();
                open(value.clone(), frequent.len(), &rows);
            }
        }
        groups
    }

    #[test]
    fn few_values_are_frequent() {
        let mut values = vec!["DE"; 60];
        values.extend(["AT"; 20].iter().chain(&["CH"; 15]).chain(&["LI"; 2]).chain(&["LU"; 3]));
        let plan = SplashePlan::of(&StringArray::from(values)).unwrap();
        assert_eq!(plan.frequent(), [text("DE")]);
        assert_eq!(plan.rest(), [text("AT"), text("CH"), text("LU"), text("LI")]);
        // Equal frequencies need no column of their own.
        let plan = SplashePlan::of(&StringArray::from(vec!["a", "b"])).unwrap();
        assert_eq!(plan.frequent().len(), 0);
        let plan = SplashePlan::of(&StringArray::from(vec![None, Some("b")])).unwrap();
        assert_eq!(plan.frequent(), [None]);
    }

    #[test]
    fn what_the_plan_does_not_fit_is_refused() {
        let scheme = splashe(&StringArray::from(vec!["a", "b", "b", "b"]));
        let encrypt = |dimension: Vec<&str>, measure: Int32Array| {
            scheme
                .encrypt(&StringArray::from(dimension), &measure, FILE)
                .map(|_| ())
        };
        assert!(encrypt(vec!["a", "b"], Int32Array::from(vec![1, 2])).is_ok());
        assert!(matches!(
            encrypt(vec!["a", "c"], Int32Array::from(vec![1, 2])),
            Err(SchemeError::Unbalanced)
        ));
        assert!(matches!(
            encrypt(vec!["a", "b"], Int32Array::from(vec![Some(1), None])),
            Err(SchemeError::Null { row: 1 })
        ));
        let scheme = splashe(&StringArray::from(vec!["a", "a", "b", "b"]));
        let unlike = StringArray::from(vec!["a", "a", "a", "b"]);
        let result = scheme.encrypt(&unlike, &Int32Array::from(vec![1; 4]), FILE);
        assert!(matches!(result, Err(SchemeError::Unbalanced)));
    }

    proptest! {
        #[test]
        fn groups_are_right_and_frequencies_level(
            rows in prop::collection::vec((prop::option::weighted(0.9, 0_usize..64), any::<i32>()), 1..200),
        ) {
            // Zipf-like: low numbers are frequent.
            let name = |draw: usize| ["a", "b", "c", "d", "e", "f", "g"][(draw.trailing_ones() as usize).min(6)];
            let dimension: StringArray = rows.iter().map(|(draw, _)| draw.map(name)).collect();
            let measure: Int32Array = rows.iter().map(|(_, value)| Some(*value)).collect();
            let mut expected = BTreeMap::<Value, (u64, i128)>::new();
            for (draw, value) in &rows {
                let group = expected.entry(draw.and_then(|draw| text(name(draw)))).or_default();
                *group = (group.0 + 1, group.1 + i128::from(*value));
            }
            let scheme = splashe(&dimension);
            let stored = scheme.encrypt(&dimension, &measure, FILE).unwrap();
            prop_assert_eq!(grouped(&scheme, &stored), expected);
            prop_assert!(stored.cells.iter().all(|cell| cell.count.null_count() + cell.sum.null_count() == 0));
            if let Some(rest) = &stored.rest {
                let mut counts = BTreeMap::<&[u8], usize>::new();
                rest.as_binary::<i32>().iter().flatten().for_each(|value| *counts.entry(value).or_default() += 1);
                let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
                prop_assert_eq!(counts.len(), scheme.plan.rest().len());
                prop_assert!(most - least <= 1, "{:?}", counts);
            }
        }
    }
}
