//! Replays what vanilla Spark's expressions gave for built-in functions (`tests/functions/*.txt`,
//! written by `FunctionGoldenSuite` of the plugin): each call as the translator emits it, over the
//! values that Spark computed it over.

use std::{fs, path::PathBuf, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Schema, SchemaRef, Time64MicrosecondType, TimestampMicrosecondType,
    },
    record_batch::RecordBatch,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use coffer_expr::{CompileContext, SparkError, compile, scalar, types::schema_to_arrow};
use coffer_protocol::plan::{self, TypeId, literal::Value};
use datafusion_physical_expr::PhysicalExpr;
use prost::Message;

/// A value's text, read from its front.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.0.strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Up to a sign that ends a value.
    fn word(&mut self) -> &str {
        let end = self
            .0
            .find([',', ']', ')', '}', ':'])
            .unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    fn text(&mut self) -> String {
        let mut out = String::new();
        let mut chars = self.0.chars();
        assert_eq!(chars.next(), Some('"'));
        while let Some(c) = chars.next() {
            match c {
                '"' => break,
                '\\' => match chars.next().unwrap() {
                    'u' => {
                        let code: String = chars.by_ref().take(4).collect();
                        let code = u32::from_str_radix(&code, 16).unwrap();
                        out.push(char::from_u32(code).unwrap());
                    }
                    other => out.push(other),
                },
                c => out.push(c),
            }
        }
        self.0 = chars.as_str();
        out
    }

    fn items(&mut self, end: &str, types: impl Fn(usize) -> plan::DataType) -> Value {
        let mut values = Vec::new();
        while !self.take(end) {
            values.push(self.value(&types(values.len())));
            let _ = self.take(",") || self.take(":");
        }
        Value::Nested(plan::literal::Nested { values })
    }

    fn value(&mut self, of: &plan::DataType) -> plan::Literal {
        let child = |i: usize| of.children[i % of.children.len()].r#type.clone().unwrap();
        let value = (!self.take("NULL")).then(|| match TypeId::try_from(of.id).unwrap() {
            TypeId::Boolean => Value::Bool(self.word() == "true"),
            TypeId::Float => Value::Float(f32::from_bits(
                u32::from_str_radix(self.word(), 16).unwrap(),
            )),
            TypeId::Double => Value::Double(f64::from_bits(
                u64::from_str_radix(self.word(), 16).unwrap(),
            )),
            TypeId::Decimal => {
                let unscaled: i128 = self.word().parse().unwrap();
                Value::Decimal(unscaled.to_be_bytes().to_vec())
            }
            TypeId::String => Value::String(self.text()),
            TypeId::Binary => {
                let hex = self.word().strip_prefix('x').unwrap().to_owned();
                let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
                Value::Binary((0..hex.len()).step_by(2).map(byte).collect())
            }
            TypeId::Array => {
                assert!(self.take("["));
                self.items("]", child)
            }
            TypeId::Struct => {
                assert!(self.take("("));
                self.items(")", child)
            }
            TypeId::Map => {
                assert!(self.take("{"));
                self.items("}", child)
            }
            // Spark's are nanoseconds.
            TypeId::Time => Value::Int(self.word().parse::<i64>().unwrap() / 1_000),
            _ => Value::Int(self.word().parse().unwrap()),
        });
        plan::Literal {
            r#type: Some(of.clone()),
            value,
        }
    }
}

fn joined(values: &ArrayRef) -> String {
    let texts: Vec<String> = (0..values.len()).map(|row| text_of(values, row)).collect();
    texts.join(",")
}

fn text_of(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".into();
    }
    match array.data_type() {
        DataType::Null => "NULL".into(),
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).to_string(),
        DataType::Timestamp(..) => array
            .as_primitive::<TimestampMicrosecondType>()
            .value(row)
            .to_string(),
        DataType::Time64(_) => {
            let micros = array.as_primitive::<Time64MicrosecondType>().value(row);
            (micros * 1_000).to_string()
        }
        DataType::Decimal128(..) => array
            .as_primitive::<Decimal128Type>()
            .value(row)
            .to_string(),
        DataType::Float32 => {
            let v = array.as_primitive::<Float32Type>().value(row);
            format!("{:08x}", if v.is_nan() { f32::NAN } else { v }.to_bits())
        }
        DataType::Float64 => {
            let v = array.as_primitive::<Float64Type>().value(row);
            format!("{:016x}", if v.is_nan() { f64::NAN } else { v }.to_bits())
        }
        DataType::Utf8 => {
            let mut out = String::from("\"");
            for c in array.as_string::<i32>().value(row).chars() {
                match c {
                    '"' | '\\' => out.extend(['\\', c]),
                    c if u32::from(c) < 32 || c == '\u{7f}' => {
                        out.push_str(&format!("\\u{:04x}", u32::from(c)));
                    }
                    c => out.push(c),
                }
            }
            out + "\""
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(row).iter();
            format!("x{}", bytes.map(|b| format!("{b:02X}")).collect::<String>())
        }
        DataType::List(_) => format!("[{}]", joined(&array.as_list::<i32>().value(row))),
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            let fields: Vec<String> = columns.map(|column| text_of(column, row)).collect();
            format!("({})", fields.join(","))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let pair = |i| {
                let side = |s: usize| text_of(entries.column(s), i);
                format!("{}:{}", side(0), side(1))
            };
            format!(
                "{{{}}}",
                (0..entries.len()).map(pair).collect::<Vec<_>>().join(",")
            )
        }
        other => panic!("{other}"),
    }
}

struct Case {
    head: String,
    types: Vec<plan::DataType>,
    schema: SchemaRef,
    expr: Result<Arc<dyn PhysicalExpr>, String>,
}

fn case(head: &str, line: &str) -> Case {
    let mut parts = line
        .split(' ')
        .map(|part| BASE64_STANDARD.decode(part).unwrap());
    let schema = plan::Schema::decode(parts.next().unwrap().as_slice()).unwrap();
    let expr = plan::Expr::decode(parts.next().unwrap().as_slice()).unwrap();
    let arrow = schema_to_arrow(&schema).unwrap();
    let compiled = compile(&expr, &arrow, &CompileContext::default());
    Case {
        head: head.to_owned(),
        types: schema
            .fields
            .iter()
            .map(|f| f.r#type.clone().unwrap())
            .collect(),
        schema: Arc::new(Schema::new(
            arrow
                .fields()
                .iter()
                .map(|f| f.as_ref().clone().with_nullable(true))
                .collect::<Vec<_>>(),
        )),
        expr: compiled.map_err(|e| e.to_string()),
    }
}

fn replay(case: &Case, args: &[&str]) -> String {
    let expr = match &case.expr {
        Ok(expr) => expr,
        Err(why) => return format!("unsupported: {why}"),
    };
    let columns = case.types.iter().zip(args).map(|(of, text)| {
        let value = scalar(&Reader(text).value(of)).unwrap();
        // Twice, so that a result for all rows has the right length.
        value.to_array_of_size(2).unwrap()
    });
    let batch = RecordBatch::try_new(Arc::clone(&case.schema), columns.collect()).unwrap();
    match expr.evaluate(&batch).and_then(|value| value.into_array(2)) {
        Ok(array) => {
            assert_eq!(text_of(&array, 0), text_of(&array, 1), "{}", case.head);
            text_of(&array, 0)
        }
        Err(e) => match SparkError::find(&e) {
            Some(spark) => format!("!{}", spark.class),
            None => format!("error: {e}"),
        },
    }
}

/// The only refusals of a row: `docs/reference/expressions.md` has them.
const KNOWN_LIMITS: [&str; 3] = [
    "!UNSUPPORTED_DIGITS",
    "!UNSUPPORTED_EMPTY_MATCH",
    "!UNSUPPORTED_MALFORMED_JSON",
];

/// Errors agree when their class does; what Java raises without a class agrees with any error.
/// Nothing is computed where an engine says that it does not do this.
fn agree(found: &str, expected: &str) -> bool {
    match expected {
        _ if KNOWN_LIMITS.contains(&found) => true,
        "!JAVA" => found.starts_with('!') && !found.starts_with("!UNSUPPORTED"),
        _ => found == expected,
    }
}

#[test]
fn every_answer_is_sparks() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "functions"]
        .iter()
        .collect();
    let (mut wrong, mut lines) = (Vec::new(), 0);
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let (mut head, mut now) = ("", None);
        for line in text.split_terminator('\n') {
            if let Some(text) = line.strip_prefix("# ") {
                head = text;
            } else if let Some(call) = line.strip_prefix("= ") {
                now = Some(case(head, call));
            } else {
                let fields: Vec<&str> = line.split('\t').collect();
                let (expected, args) = fields.split_last().unwrap();
                let found = replay(now.as_ref().unwrap(), args);
                lines += 1;
                if !agree(&found, expected) {
                    wrong.push(format!("{head}: {args:?} gives {found}, not {expected}"));
                }
            }
        }
    }
    assert!(lines > 15_000, "{lines} lines");
    let shown = wrong
        .iter()
        .take(400)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        wrong.is_empty(),
        "{} of {lines} lines differ\n{shown}",
        wrong.len()
    );
}
