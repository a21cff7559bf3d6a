//! Replays what vanilla Spark gave (`tests/golden/*.tsv`, written by
//! `testing/tools/make_expr_golden.py`).
//!
//! Lines that differ for a reason given in `docs/reference/expressions.md` are pinned, each with
//! what is found instead (`tests/golden/known_limits.tsv`); so is the number of lines of each file.
//! `COFFER_GOLDEN=write` writes the pins anew, for a reviewer to see.

use std::{collections::BTreeSet, env, fs, path::PathBuf, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Schema,
        TimestampMicrosecondType,
    },
    record_batch::RecordBatch,
};
use coffer_expr::{CompileContext, SparkError, compile, scalar, types::to_arrow};
use coffer_protocol::plan::{self, EvalMode, FloatText, TypeId, expr::Kind, literal::Value};

fn data_type(name: &str) -> plan::DataType {
    let (id, precision, scale) = match name {
        "void" => (TypeId::Null, 0, 0),
        "boolean" => (TypeId::Boolean, 0, 0),
        "tinyint" => (TypeId::Byte, 0, 0),
        "smallint" => (TypeId::Short, 0, 0),
        "int" => (TypeId::Int, 0, 0),
        "bigint" => (TypeId::Long, 0, 0),
        "float" => (TypeId::Float, 0, 0),
        "double" => (TypeId::Double, 0, 0),
        "string" => (TypeId::String, 0, 0),
        "binary" => (TypeId::Binary, 0, 0),
        "date" => (TypeId::Date, 0, 0),
        "timestamp" => (TypeId::Timestamp, 0, 0),
        "timestamp_ntz" => (TypeId::TimestampNtz, 0, 0),
        other => {
            let inner = other
                .strip_prefix("decimal(")
                .and_then(|t| t.strip_suffix(')'))
                .expect(other);
            let (precision, scale) = inner.split_once(',').unwrap();
            (
                TypeId::Decimal,
                precision.parse().unwrap(),
                scale.parse().unwrap(),
            )
        }
    };
    plan::DataType {
        id: id.into(),
        precision,
        scale,
        ..plan::DataType::default()
    }
}

/// Argument types are joined by commas, and so are a decimal's two numbers.
fn split_types(text: &str) -> Vec<String> {
    let mut types: Vec<String> = Vec::new();
    for part in text.split(',') {
        match types.last_mut() {
            Some(last) if last.contains('(') && !last.contains(')') => {
                last.push(',');
                last.push_str(part);
            }
            _ => types.push(part.to_owned()),
        }
    }
    types
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text
        .strip_prefix('"')
        .unwrap()
        .strip_suffix('"')
        .unwrap()
        .chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next().unwrap() {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'b' => out.push('\u{8}'),
                'f' => out.push('\u{c}'),
                'u' => {
                    let code: String = chars.by_ref().take(4).collect();
                    out.push(char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap());
                }
                other => out.push(other),
            },
            c => out.push(c),
        }
    }
    out
}

fn literal(type_name: &str, text: &str) -> plan::Literal {
    let data_type = data_type(type_name);
    let value = (text != "NULL").then(|| match TypeId::try_from(data_type.id).unwrap() {
        TypeId::Boolean => Value::Bool(text == "true"),
        TypeId::Float => Value::Float(f32::from_be_bytes(hex(text).try_into().unwrap())),
        TypeId::Double => Value::Double(f64::from_be_bytes(hex(text).try_into().unwrap())),
        TypeId::String => Value::String(unescape(text)),
        TypeId::Binary => Value::Binary(hex(text)),
        TypeId::Decimal => {
            let text = plain(text);
            let digits: String = text.chars().filter(|c| *c != '.').collect();
            let own = text
                .split_once('.')
                .map_or(0, |(_, fraction)| fraction.len());
            let zeros = data_type.scale as usize - own;
            let unscaled: i128 = format!("{digits}{}", "0".repeat(zeros)).parse().unwrap();
            Value::Decimal(unscaled.to_be_bytes().to_vec())
        }
        _ => Value::Int(text.parse().unwrap()),
    });
    plan::Literal {
        r#type: Some(data_type),
        value,
    }
}

/// A decimal without trailing zeros: PySpark does not always give as many as the type has.
fn plain(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

fn text_of(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".into();
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Float32 => {
            let v = array.as_primitive::<Float32Type>().value(row);
            format!("{:08x}", if v.is_nan() { f32::NAN } else { v }.to_bits())
        }
        DataType::Float64 => {
            let v = array.as_primitive::<Float64Type>().value(row);
            format!("{:016x}", if v.is_nan() { f64::NAN } else { v }.to_bits())
        }
        DataType::Utf8 => format!("{:?}", array.as_string::<i32>().value(row)),
        DataType::Binary => array
            .as_binary::<i32>()
            .value(row)
            .iter()
            .map(|b| format!("{b:02X}"))
            .collect(),
        DataType::Decimal128(..) => {
            plain(&array.as_primitive::<Decimal128Type>().value_as_string(row)).to_owned()
        }
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).to_string(),
        DataType::Timestamp(..) => array
            .as_primitive::<TimestampMicrosecondType>()
            .value(row)
            .to_string(),
        _ => arrow::util::display::array_value_to_string(array, row).unwrap(),
    }
}

fn expected_text(type_name: &str, text: &str) -> String {
    match (type_name, text) {
        (_, "NULL") => "NULL".into(),
        ("string", text) if text.starts_with('"') => format!("{:?}", unescape(text)),
        ("float" | "double", text) if text.starts_with('!') => text.to_owned(),
        ("float", text) if f32::from_be_bytes(hex(text).try_into().unwrap()).is_nan() => {
            format!("{:08x}", f32::NAN.to_bits())
        }
        ("double", text) if f64::from_be_bytes(hex(text).try_into().unwrap()).is_nan() => {
            format!("{:016x}", f64::NAN.to_bits())
        }
        (decimal, text) if decimal.starts_with("decimal") && !text.starts_with('!') => {
            plain(text).to_owned()
        }
        (_, text) => text.to_owned(),
    }
}

/// The result of one line as text: a value, `!CLASS`, or why it is not supported.
fn replay(fields: &[&str]) -> String {
    let [name, mode, zone, types, ret, rest @ ..] = fields else {
        panic!("{fields:?}")
    };
    let (_, args) = rest.split_last().unwrap();
    let types = split_types(types);
    let mode = match *mode {
        "L" => EvalMode::Legacy,
        "A" => EvalMode::Ansi,
        _ => EvalMode::Try,
    };
    let (mut columns, mut schema_fields, mut exprs) = (Vec::new(), Vec::new(), Vec::new());
    for (type_name, text) in types.iter().zip(args) {
        let kind = match type_name.strip_prefix('=') {
            Some(type_name) => Kind::Literal(literal(type_name, text)),
            None => {
                let value = scalar(&literal(type_name, text)).unwrap();
                // Twice, so that a result for all rows has the right length.
                columns.push(value.to_array_of_size(2).unwrap());
                schema_fields.push(Field::new(
                    "c",
                    to_arrow(&data_type(type_name)).unwrap(),
                    true,
                ));
                Kind::Column(u32::try_from(columns.len() - 1).unwrap())
            }
        };
        exprs.push(plan::Expr { kind: Some(kind) });
    }
    let ret = Some(data_type(ret));
    let kind = match *name {
        "cast" => Kind::Cast(Box::new(plan::Cast {
            child: exprs.pop().map(Box::new),
            to: ret,
            mode: mode.into(),
            time_zone: (*zone).to_owned(),
            // The files are of JDK 17.
            float_text: FloatText::Jdk18.into(),
            ..plan::Cast::default()
        })),
        name => Kind::Call(plan::Call {
            name: name.to_owned(),
            args: exprs,
            r#type: ret,
            mode: mode.into(),
            time_zone: (*zone).to_owned(),
            // The files are of JDK 17.
            float_text: FloatText::Jdk18.into(),
        }),
    };
    let schema = Arc::new(Schema::new(schema_fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let expr = match compile(
        &plan::Expr { kind: Some(kind) },
        &schema,
        &CompileContext::default(),
    ) {
        Ok(expr) => expr,
        Err(e) => return format!("unsupported: {e}"),
    };
    match expr.evaluate(&batch).and_then(|value| value.into_array(2)) {
        Ok(array) => {
            assert_eq!(text_of(&array, 0), text_of(&array, 1));
            text_of(&array, 0)
        }
        Err(e) => match SparkError::find(&e) {
            Some(spark) => format!("!{}", spark.class),
            None => format!("error: {e}"),
        },
    }
}

/// Errors agree when their class does; what Java raises without a class agrees with any error.
fn agree(found: &str, expected: &str) -> bool {
    match expected.strip_prefix('!') {
        Some("JAVA") => found.starts_with('!') && !found.starts_with("!UNSUPPORTED"),
        Some(_) | None => found == expected,
    }
}

/// The only words that a line may be pinned with: an engine says that it does not do this, and
/// nothing is computed.
const KNOWN_LIMITS: [&str; 4] = [
    "!UNSUPPORTED_DIGITS",
    "!UNSUPPORTED_TIME_OF_DAY",
    "!UNSUPPORTED_HEXADECIMAL_FLOAT",
    "!MALFORMED_UTF8",
];

fn golden(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", file]
        .iter()
        .collect()
}

/// What differs from Spark in a file, a line each: the file, what is found, Spark's line.
fn differences(file: &str, lines: usize) -> BTreeSet<String> {
    let text = fs::read_to_string(golden(file)).unwrap();
    let (mut differ, mut count) = (BTreeSet::new(), 0);
    for line in text.split_terminator('\n') {
        let fields: Vec<&str> = line.split('\t').collect();
        let expected = expected_text(fields[4], fields[fields.len() - 1]);
        let found = replay(&fields);
        count += 1;
        if !agree(&found, &expected) {
            differ.insert(format!("{file}\t{found}\t{line}"));
        }
    }
    assert_eq!(count, lines, "{file}: the number of lines is pinned");
    differ
}

/// One test, as all files share their pins.
#[test]
fn every_line_is_sparks_or_a_known_limit() {
    const FILES: [(&str, usize); 7] = [
        ("casts.tsv", 8696),
        ("predicates.tsv", 5184),
        ("arithmetic.tsv", 17027),
        ("mathematics.tsv", 2552),
        ("strings.tsv", 4669),
        ("datetimes.tsv", 1880),
        ("zones.tsv", 4457),
    ];
    let differ: BTreeSet<String> = FILES
        .iter()
        .flat_map(|(file, lines)| differences(file, *lines))
        .collect();
    let is_limit = |line: &&String| {
        line.split('\t')
            .nth(1)
            .is_some_and(|found| KNOWN_LIMITS.contains(&found))
    };
    let wrong: Vec<_> = differ
        .iter()
        .filter(|line| !is_limit(line))
        .cloned()
        .collect();
    assert!(
        wrong.is_empty(),
        "{} lines differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let pins = golden("known_limits.tsv");
    let text: String = differ.iter().map(|line| format!("{line}\n")).collect();
    if env::var("COFFER_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(&pins, &text).unwrap();
    }
    let pinned = fs::read_to_string(&pins).unwrap_or_default();
    let pinned: BTreeSet<String> = pinned.split_terminator('\n').map(str::to_owned).collect();
    let changed: Vec<_> = differ.symmetric_difference(&pinned).cloned().collect();
    assert!(
        changed.is_empty(),
        "known limits came or went (COFFER_GOLDEN=write pins them):\n{}",
        changed.join("\n")
    );
}
