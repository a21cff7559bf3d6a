//! FLOAT and DOUBLE as text, as two generations of Java write them: tests/floats/README.md.

use std::{fs, path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, Float32Array, Float64Array},
    datatypes::{DataType, Field, Schema},
    record_batch::RecordBatch,
};
use coffer_expr::{CompileContext, compile};
use coffer_protocol::plan::{self, FloatText, TypeId, expr::Kind};

const STYLES: [FloatText; 2] = [FloatText::Jdk18, FloatText::Shortest];

fn of(id: TypeId) -> plan::DataType {
    plan::DataType {
        id: id.into(),
        ..plan::DataType::default()
    }
}

fn cast(values: &ArrayRef, to: plan::DataType, style: FloatText) -> ArrayRef {
    let schema = Arc::new(Schema::new(vec![Field::new(
        "v",
        values.data_type().clone(),
        true,
    )]));
    let column = plan::Expr {
        kind: Some(Kind::Column(0)),
    };
    let cast = plan::Cast {
        child: Some(Box::new(column)),
        to: Some(to),
        float_text: style.into(),
        ..plan::Cast::default()
    };
    let expr = plan::Expr {
        kind: Some(Kind::Cast(Box::new(cast))),
    };
    let compiled = compile(&expr, &schema, &CompileContext::default()).unwrap();
    let batch = RecordBatch::try_new(schema, vec![Arc::clone(values)]).unwrap();
    compiled
        .evaluate(&batch)
        .unwrap()
        .into_array(values.len())
        .unwrap()
}

fn texts(values: &ArrayRef, style: FloatText) -> Vec<String> {
    let cast = cast(values, of(TypeId::String), style);
    cast.as_string::<i32>()
        .iter()
        .map(|text| text.unwrap().to_owned())
        .collect()
}

fn doubles(bits: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(
        bits.into_iter().map(f64::from_bits),
    ))
}

fn floats(bits: impl IntoIterator<Item = u32>) -> ArrayRef {
    Arc::new(Float32Array::from_iter_values(
        bits.into_iter().map(f32::from_bits),
    ))
}

#[test]
fn texts_are_javas_by_its_version() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/floats/java.tsv");
    let file = fs::read_to_string(path).unwrap();
    let lines: Vec<Vec<&str>> = file
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    let (wide, narrow): (Vec<_>, Vec<_>) = lines.iter().partition(|fields| fields[0].len() == 16);
    // Whoever makes the file anew looks at these.
    assert_eq!((wide.len(), narrow.len()), WANTED);
    assert_eq!(
        lines.iter().filter(|fields| fields.len() == 3).count(),
        DIFFERENT
    );
    let wide_bits = wide
        .iter()
        .map(|fields| u64::from_str_radix(fields[0], 16).unwrap());
    let narrow_bits = narrow
        .iter()
        .map(|fields| u32::from_str_radix(fields[0], 16).unwrap());
    let (wide_values, narrow_values) = (doubles(wide_bits), floats(narrow_bits));
    for style in STYLES {
        for (lines, values) in [(&wide, &wide_values), (&narrow, &narrow_values)] {
            let expected = lines.iter().map(|fields| match style {
                FloatText::Jdk18 => fields[1],
                FloatText::Shortest => fields[fields.len() - 1],
            });
            let found = texts(values, style);
            let wrong: Vec<_> = found
                .iter()
                .zip(expected)
                .filter(|(found, expected)| found != expected)
                .collect();
            assert!(
                wrong.is_empty(),
                "{style:?}: {} wrong: {:?}",
                wrong.len(),
                wrong.get(..20.min(wrong.len()))
            );
        }
    }
}

const WANTED: (usize, usize) = (35659, 8765);
const DIFFERENT: usize = 2012;

/// What goes by the text of a double goes by the same one: `CAST(8.41E21 AS DECIMAL(38,0))`, and
/// rounding.
#[test]
fn decimals_and_rounding_go_by_the_text() {
    let values = doubles([8.41e21_f64.to_bits()]);
    let decimal = plan::DataType {
        id: TypeId::Decimal.into(),
        precision: 38,
        ..plan::DataType::default()
    };
    let unscaled = |style| {
        let made = cast(&values, decimal.clone(), style);
        made.as_primitive::<arrow::datatypes::Decimal128Type>()
            .value(0)
    };
    assert_eq!(unscaled(FloatText::Jdk18), 8_409_999_999_999_999_000_000);
    assert_eq!(unscaled(FloatText::Shortest), 8_410_000_000_000_000_000_000);
    assert_eq!(rounded(8.41e21, -19, FloatText::Jdk18), 8.41e21);
    assert_eq!(
        rounded(2.0e23, -22, FloatText::Jdk18),
        rounded(2.0e23, -22, FloatText::Shortest)
    );
    // The digits end in 4999… or in 5, and so it is rounded down or up.
    let (value, down, up) = HALF;
    assert_eq!(rounded(value, -20, FloatText::Jdk18), down);
    assert_eq!(rounded(value, -20, FloatText::Shortest), up);
}

const HALF: (f64, f64, f64) = (4.85e21, 4.8e21, 4.9e21);

fn rounded(value: f64, scale: i32, style: FloatText) -> f64 {
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Float64, true)]));
    let literal = plan::Literal {
        r#type: Some(of(TypeId::Int)),
        value: Some(plan::literal::Value::Int(scale.into())),
    };
    let args = [Kind::Column(0), Kind::Literal(literal)];
    let round = plan::Call {
        name: "round".to_owned(),
        args: args
            .into_iter()
            .map(|kind| plan::Expr { kind: Some(kind) })
            .collect(),
        r#type: Some(of(TypeId::Double)),
        float_text: style.into(),
        ..plan::Call::default()
    };
    let expr = plan::Expr {
        kind: Some(Kind::Call(round)),
    };
    let compiled = compile(&expr, &schema, &CompileContext::default()).unwrap();
    let batch = RecordBatch::try_new(schema, vec![doubles([value.to_bits()])]).unwrap();
    let made = compiled.evaluate(&batch).unwrap().into_array(1).unwrap();
    made.as_primitive::<arrow::datatypes::Float64Type>()
        .value(0)
}

/// The same digest as `java Floats.java SEED COUNT` prints: COFFER_FLOATS="SEED COUNT DIGEST_OF_17
/// DIGEST_OF_25".
#[test]
#[ignore = "compares millions of texts with a Java: tests/floats/README.md"]
fn random_texts_are_javas() {
    let known = std::env::var("COFFER_FLOATS").expect("COFFER_FLOATS");
    let known: Vec<&str> = known.split_whitespace().collect();
    let (seed, count): (u64, usize) = (known[0].parse().unwrap(), known[1].parse().unwrap());
    for (style, expected) in STYLES.into_iter().zip(&known[2..]) {
        let mut state = seed;
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for first in (0..count).step_by(1 << 16) {
            let drawn: Vec<u64> = (first..count.min(first + (1 << 16)))
                .map(|_| draw(&mut state))
                .collect();
            let wide = texts(
                &doubles(drawn.iter().enumerate().map(|(i, z)| wide_of(i, *z))),
                style,
            );
            let narrow = texts(&floats(drawn.iter().map(|z| *z as u32)), style);
            for (i, (wide, narrow)) in wide.iter().zip(&narrow).enumerate() {
                let text = if i % 4 == 3 { narrow } else { wide };
                for byte in text.bytes().chain([10]) {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        assert_eq!(format!("{hash:x}"), *expected, "{style:?}");
    }
}

/// SplitMix64, since that is what Java's `SplittableRandom` draws.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn wide_of(i: usize, z: u64) -> u64 {
    match i % 4 {
        0 => z,
        1 => ((z >> 20) as f64 / 1000.0).to_bits(),
        // Java's conversion of a long is of a signed one.
        2 => ((z >> (z & 31)) as i64 as f64 * 1e-9).to_bits(),
        _ => 0,
    }
}
