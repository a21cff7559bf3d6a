//! Spark's scalar expressions over Arrow arrays.
//!
//! [`compile()`] turns an expression of the fragment IR into a DataFusion `PhysicalExpr` that
//! gives, value by value, what Spark 4.1 gives: its three-valued logic, its NaN order, its decimal
//! rounding, its casts, its ANSI errors. What cannot be done exactly is [`Unsupported`], never
//! approximated.
//!
//! Not here: aggregates and operators (`coffer-plan`), and Catalyst's type coercion: types arrive
//! resolved, and an expression whose argument types Catalyst would not have produced is refused.

mod aes;
mod arithmetic;
mod average;
mod bloom;
mod calendar;
mod cast;
mod cipher;
mod compile;
mod conditional;
mod datetime;
mod decimal;
mod elementary;
mod encodings;
mod error;
mod fdlibm;
mod format;
mod formats;
mod function;
mod hashes;
mod instants;
mod interval_text;
mod intervals;
mod java_time;
mod json;
mod literal;
mod math;
mod nested;
mod nested_key;
mod parse;
mod predicate;
mod regexps;
mod repeatable;
mod rows;
mod strings;
mod texts;
mod time_of_day;
pub mod types;
mod urls;
mod vector;
mod zone;

pub use average::average;
pub use bloom::BloomShape;
pub use compile::{CompileContext, compile, exact_key, is_fallible, normalize_key, order_key};
pub use error::{SparkError, Unsupported};
pub use fdlibm::log as natural_log;
pub use hashes::{is_hashed, murmur3, xx_hash64};
pub use literal::{scalar, typed_null};
pub use nested::{comparable, is_orderable};
pub use repeatable::is_repeatable;
