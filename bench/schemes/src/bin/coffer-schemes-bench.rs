//! Times the schemes on one core and prints a JSON object: median seconds, and bytes for each
//! stored value.
//!
//! usage: `coffer-schemes-bench [ROWS] [RUNS]`: 10,000,000 rows and 5 runs, unless said otherwise
//!
//! Paillier's are scaled up from 50 values to 10,000. Each run makes its scheme anew, so nothing is
//! remembered from the one before. Columns are given whole, without NULLs.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use arrow_array::{
    Array, ArrayRef, BinaryArray, Int32Array, Int64Array, cast::AsArray, types::Int64Type,
};
use arrow_schema::DataType;
use coffer_schemes::{
    Ashe, AsheSum, ColumnSpec, Det, Domain, Ope, Ore, RowPositions, Scheme, SchemeError, SchemeKey,
    Standard,
};
use coffer_schemes_bench::Paillier;

const FILE: [u8; 16] = [1; 16];

/// Median seconds by name.
#[derive(Default)]
struct Times {
    runs: usize,
    seconds: BTreeMap<String, f64>,
    bytes: BTreeMap<String, f64>,
}

impl Times {
    /// Runs `work` and gives its last result; the clock covers `work` alone.
    fn measure<T>(
        &mut self,
        name: &str,
        mut work: impl FnMut() -> Result<T, SchemeError>,
    ) -> Result<T, SchemeError> {
        let mut times = Vec::with_capacity(self.runs);
        loop {
            let start = Instant::now();
            let result = work()?;
            times.push(start.elapsed().as_secs_f64());
            if times.len() >= self.runs {
                times.sort_by(f64::total_cmp);
                let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
                eprintln!("{name}: {median:.3} s");
                self.seconds.insert(name.to_owned(), median);
                return Ok(result);
            }
        }
    }

    /// Encrypts, decrypts, and checks that the values came back.
    fn both<S: Scheme>(
        &mut self,
        name: &str,
        column: &ArrayRef,
        positions: RowPositions<'_>,
        scheme: impl Fn() -> Result<S, SchemeError>,
    ) -> Result<ArrayRef, SchemeError> {
        let stored = self.measure(name, || scheme()?.encrypt(column, positions))?;
        let opened = self.measure(&format!("{name}_decrypt"), || {
            scheme()?.decrypt(&stored, positions)
        })?;
        if &opened != column {
            return Err(SchemeError::Internal("a column did not come back"));
        }
        self.bytes.insert(name.to_owned(), bytes_per_value(&stored));
        Ok(stored)
    }

    fn json(&self) -> String {
        let object = |map: &BTreeMap<String, f64>| {
            let fields: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("\"{name}\": {value:.6}"))
                .collect();
            format!("{{{}}}", fields.join(", "))
        };
        format!(
            "{{\"seconds\": {}, \"bytes_per_value\": {}}}",
            object(&self.seconds),
            object(&self.bytes)
        )
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: usize = arguments
        .next()
        .map_or(Ok(10_000_000), |text| text.parse())?;
    let runs: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let mut times = Times {
        runs: runs.max(1),
        ..Times::default()
    };
    let name = |stem: &str| format!("{stem}_{}", label(rows));
    let positions = RowPositions::File {
        file: FILE,
        first_row: 0,
    };
    let mut random = fastrand::Rng::with_seed(42);

    let longs: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..rows).map(|_| random.i64(..)),
    ));
    let whole = ColumnSpec::new(DataType::Int64);
    let key = SchemeKey::generate()?;
    times.both(&name("det_i64"), &longs, positions, || {
        Det::new(&key, &whole)
    })?;
    times.both(&name("std_i64"), &longs, positions, || {
        Standard::new(&key, &whole)
    })?;
    times.both(&name("ore_i64"), &longs, positions, || {
        Ore::new(&key, &whole)
    })?;

    let domain = Domain::new(0, 999_999_999_999)?;
    let amounts = (0..rows).map(|_| random.i64(0..1_000_000_000_000));
    let amounts: ArrayRef = Arc::new(Int64Array::from_iter_values(amounts));
    let bounded = whole.clone().with_domain(domain);
    let stored = times.both(&name("ashe_i64"), &amounts, positions, || {
        Ashe::new(&key, &bounded)
    })?;
    sums(
        &mut times,
        &stored,
        &Ashe::new(&key, &bounded)?,
        &name("ashe"),
    )?;

    for (distinct, stem) in [(1_000_000, "1m"), (10_000, "10k")] {
        let values: Vec<i32> = (0..distinct).map(|_| random.i32(..)).collect();
        let pick = |random: &mut fastrand::Rng| {
            let positions = usize::try_from(random.u64(..distinct)).unwrap_or(0);
            values.get(positions).copied().unwrap_or(0)
        };
        let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(
            (0..rows).map(|_| pick(&mut random)),
        ));
        let spec = ColumnSpec::new(DataType::Int32);
        times.both(
            &format!("{}_{stem}", name("ope_i32")),
            &ints,
            positions,
            || Ope::new(&key, &spec),
        )?;
    }
    paillier(&mut times)?;
    println!("{}", times.json());
    Ok(())
}

/// A group of every row, and four groups of scattered rows, as an engine without keys keeps them.
fn sums(
    times: &mut Times,
    stored: &ArrayRef,
    scheme: &Ashe,
    name: &str,
) -> Result<(), SchemeError> {
    let values = stored.as_primitive::<Int64Type>();
    for (groups, stem) in [(1_u64, "all"), (4, "scattered")] {
        let sums = times.measure(&format!("{name}_sum_{stem}"), || {
            let mut sums = vec![AsheSum::default(); 4];
            for (row, value) in (0_u64..).zip(values.values()) {
                // Which group: as unpredictable as data is.
                let group = (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % groups;
                if let Some(sum) = usize::try_from(group)
                    .ok()
                    .and_then(|group| sums.get_mut(group))
                {
                    sum.add(*value, &FILE, row)?;
                }
            }
            Ok(sums)
        })?;
        let bytes: usize = sums.iter().map(|sum| sum.encode().len()).sum();
        times
            .bytes
            .insert(format!("{name}_sum_{stem}"), ratio(bytes, values.len()));
        times.measure(&format!("{name}_open_{stem}"), || {
            sums.iter()
                .map(|sum| scheme.open_sum(sum))
                .collect::<Result<Vec<_>, _>>()
        })?;
    }
    Ok(())
}

/// Seconds for 10,000 values, from fewer: it takes minutes, and each value the same.
fn paillier(times: &mut Times) -> Result<(), SchemeError> {
    const SAMPLE: u32 = 50;
    let key = Paillier::generate_key()?;
    let scheme = Paillier::new(&key, &ColumnSpec::new(DataType::Int64))?;
    let public = scheme.public()?;
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..SAMPLE).map(i64::from)));
    let mut sample = Times {
        runs: times.runs.min(3),
        ..Times::default()
    };
    let stored = sample.both("paillier_i64_10k", &column, RowPositions::Anywhere, || {
        Paillier::new(&key, &ColumnSpec::new(DataType::Int64))
    })?;
    sample.measure("paillier_i64_10k_sum", || public.sum(stored.as_binary()))?;
    let scale = 10_000.0 / f64::from(SAMPLE);
    times.seconds.extend(
        sample
            .seconds
            .into_iter()
            .map(|(name, seconds)| (name, seconds * scale)),
    );
    times.bytes.extend(sample.bytes);
    Ok(())
}

fn bytes_per_value(stored: &ArrayRef) -> f64 {
    match stored.as_any().downcast_ref::<BinaryArray>() {
        Some(binary) => ratio(binary.value_data().len(), binary.len()),
        None => 8.0,
    }
}

fn ratio(bytes: usize, rows: usize) -> f64 {
    let number = |n: usize| u32::try_from(n).map_or(f64::INFINITY, f64::from);
    number(bytes) / number(rows.max(1))
}

fn label(rows: usize) -> String {
    match rows {
        rows if rows.is_multiple_of(1_000_000) => format!("{}m", rows / 1_000_000),
        rows if rows.is_multiple_of(1_000) => format!("{}k", rows / 1_000),
        rows => rows.to_string(),
    }
}
