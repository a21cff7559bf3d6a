//! MIN and MAX. Buffer: `[min]` or `[max]`. NaN is larger than every number, and there is one. −0.0
//! equals 0.0; of the two it is −0.0 that is the least and 0.0 that is the largest, or the result
//! would depend on which came first. Strings and binaries compare by bytes.

use std::{cmp::Ordering, sync::Arc};

use arrow::{
    array::{
        ArrayAccessor, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray,
        PrimitiveArray, StringArray,
    },
    compute::cast,
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_expr::EmitTo;

use super::state::{GroupState, column, each, fold, live};

/// Spark's order of values of one type.
pub(super) trait SparkOrder: Copy {
    fn order(self, other: Self) -> Ordering;

    /// Of two equal values, whichever came first, the same one.
    fn of_equals(self, _other: Self, _largest: bool) -> Self {
        self
    }

    /// One value for all that have no bits of their own.
    fn canonical(self) -> Self {
        self
    }
}

macro_rules! natural_order {
    ($($native:ty),*) => { $(impl SparkOrder for $native {
        fn order(self, other: Self) -> Ordering { self.cmp(&other) }
    })* };
}
natural_order!(i8, i16, i32, i64, i128);

macro_rules! float_order {
    ($($native:ty),*) => { $(impl SparkOrder for $native {
        fn order(self, other: Self) -> Ordering {
            self.partial_cmp(&other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
        }

        fn of_equals(self, other: Self, largest: bool) -> Self {
            if self.is_sign_negative() == largest { other.canonical() } else { self.canonical() }
        }

        fn canonical(self) -> Self {
            if self.is_nan() { Self::NAN } else { self }
        }
    })* };
}
float_order!(f32, f64);

/// The state for a type, or `None` if Spark's order of it is not here.
pub(super) fn state(data_type: &DataType, largest: bool) -> Option<Box<dyn GroupState>> {
    let wanted = if largest {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    fn numbers<T: ArrowPrimitiveType>(
        stored: DataType,
        result: &DataType,
        wanted: Ordering,
    ) -> Option<Box<dyn GroupState>>
    where
        T::Native: SparkOrder,
    {
        Some(Box::new(Extreme::<T> {
            stored,
            result: result.clone(),
            wanted,
            values: vec![],
        }))
    }
    let own = data_type.clone();
    match data_type {
        DataType::Boolean => numbers::<Int8Type>(DataType::Int8, data_type, wanted),
        DataType::Int8 => numbers::<Int8Type>(own, data_type, wanted),
        DataType::Int16 => numbers::<Int16Type>(own, data_type, wanted),
        DataType::Int32 => numbers::<Int32Type>(own, data_type, wanted),
        DataType::Int64 => numbers::<Int64Type>(own, data_type, wanted),
        DataType::Float32 => numbers::<Float32Type>(own, data_type, wanted),
        DataType::Float64 => numbers::<Float64Type>(own, data_type, wanted),
        DataType::Decimal128(..) => numbers::<Decimal128Type>(own, data_type, wanted),
        DataType::Date32 => numbers::<Date32Type>(own, data_type, wanted),
        DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, _) => {
            numbers::<TimestampMicrosecondType>(own, data_type, wanted)
        }
        DataType::Time64(arrow::datatypes::TimeUnit::Microsecond) => {
            numbers::<Time64MicrosecondType>(own, data_type, wanted)
        }
        DataType::Utf8 | DataType::Binary => Some(Box::new(ExtremeBytes {
            utf8: data_type == &DataType::Utf8,
            wanted,
            values: vec![],
            bytes: 0,
        })),
        _ => None,
    }
}

struct Extreme<T: ArrowPrimitiveType> {
    /// The type that is compared; BOOLEAN is kept as a number.
    stored: DataType,
    result: DataType,
    wanted: Ordering,
    values: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType> GroupState for Extreme<T>
where
    T::Native: SparkOrder,
{
    fn resize(&mut self, groups: usize) {
        self.values.resize(groups, None);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let values = column(values, 0, &self.stored)?;
        let wanted = self.wanted;
        fold::<T, _>(&values, groups, filter, &mut self.values, |best, value| {
            *best = Some(match *best {
                Some(held) => match value.order(held) {
                    Ordering::Equal => held.of_equals(value, wanted == Ordering::Greater),
                    order if order == wanted => value.canonical(),
                    _ => held,
                },
                None => value.canonical(),
            });
            Ok(())
        })
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        self.update(buffers, groups, filter)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let values = emit.take_needed(&mut self.values);
        let array: PrimitiveArray<T> = values.into_iter().collect();
        let array: ArrayRef = Arc::new(array.with_data_type(self.stored.clone()));
        if self.result == self.stored {
            Ok(array)
        } else {
            Ok(cast(&array, &self.result)?)
        }
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<Option<T::Native>>()
    }
}

struct ExtremeBytes {
    utf8: bool,
    wanted: Ordering,
    values: Vec<Option<Vec<u8>>>,
    bytes: usize,
}

impl ExtremeBytes {
    fn take<'a, A: ArrayAccessor<Item = &'a B>, B: AsRef<[u8]> + ?Sized + 'a>(
        &mut self,
        array: A,
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let live = live(array.nulls(), filter);
        let (wanted, values, bytes) = (self.wanted, &mut self.values, &mut self.bytes);
        each(live.as_ref(), groups, |row, group| {
            let value = array.value(row).as_ref();
            let best = values[group].get_or_insert_with(|| {
                *bytes += value.len();
                value.to_vec()
            });
            if value.cmp(best.as_slice()) == wanted {
                *bytes = bytes.saturating_sub(best.len()) + value.len();
                best.clear();
                best.extend_from_slice(value);
            }
            Ok(())
        })
    }
}

impl GroupState for ExtremeBytes {
    fn resize(&mut self, groups: usize) {
        self.values.resize(groups, None);
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        if self.utf8 {
            let array = column(values, 0, &DataType::Utf8)?;
            self.take(array.as_string::<i32>(), groups, filter)
        } else {
            let array = column(values, 0, &DataType::Binary)?;
            self.take(array.as_binary::<i32>(), groups, filter)
        }
    }

    fn merge(
        &mut self,
        buffers: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        self.update(buffers, groups, filter)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let values = emit.take_needed(&mut self.values);
        let taken: usize = values.iter().flatten().map(Vec::len).sum();
        self.bytes = self.bytes.saturating_sub(taken);
        if !self.utf8 {
            return Ok(Arc::new(values.into_iter().collect::<BinaryArray>()));
        }
        let strings = values
            .into_iter()
            .map(|value| value.map(String::from_utf8).transpose())
            .collect::<Result<StringArray, _>>()
            .map_err(|_| internal_datafusion_err!("a string that was kept is not UTF-8"))?;
        Ok(Arc::new(strings))
    }

    fn buffers(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<Option<Vec<u8>>>() + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_largest_and_zeros_are_equal() {
        assert_eq!(f64::NAN.order(f64::INFINITY), Ordering::Greater);
        assert_eq!(f64::NAN.order(-f64::NAN), Ordering::Equal);
        assert_eq!((-0.0f64).order(0.0), Ordering::Equal);
        assert_eq!(1.0f32.order(f32::NAN), Ordering::Less);
    }

    #[test]
    fn of_equal_values_the_same_one_is_taken_in_any_order() {
        let odd = f64::from_bits(0xfff8_0000_0000_0001);
        for (largest, zero) in [(true, 0.0f64), (false, -0.0)] {
            for values in [vec![0.0, -0.0], vec![-0.0, 0.0], vec![-0.0, 0.0, -0.0]] {
                let taken = values
                    .into_iter()
                    .reduce(|held: f64, value| held.of_equals(value, largest));
                assert_eq!(taken.unwrap().to_bits(), zero.to_bits());
            }
        }
        assert_eq!(odd.canonical().to_bits(), f64::NAN.to_bits());
    }
}
