//! Columns in the fixed part of a payload.
//!
//! ```text
//! column   = [validity] values                       (a column of type NULL takes nothing)
//! validity = 0 | 1 ‖ bitmap                          (1 bits are values; ⌈rows/8⌉ bytes)
//! values   = bitmap                                  (BOOLEAN)
//!          | numbers                                 (any other fixed width of 1, 2, 4, 8, 16
//!                                                     bytes, by its bits)
//!          | text u32 LE ‖ numbers                   (STRING, BINARY: bytes in the text part; the
//!                                                     numbers are lengths)
//!          | elements u32 LE ‖ numbers ‖ column ...  (ARRAY, MAP: lengths, then the columns of
//!                                                     elements or of keys and values)
//!          | column ...                              (STRUCT: its fields)
//! numbers  = form u8 ‖ base i64 LE ‖ rows × n bytes  (n of 0, 1, 2, 4: what is added to base)
//!          | form u8 ‖ base i64 LE ‖ rows × n bytes  (n of 1, 2, 4: steps; what is added to the
//!                                                     value before)
//!          | form u8 ‖ rows × n bytes                (n of 8: 64-bit numbers of a type of 16
//!                                                     bytes; or the type's own)
//! form     = log₂ of the type's width (4 bits)
//!            ‖ 0, 1, 2, 4, 8: n | 9, 10, 12: steps of n = 1, 2, 4 | 15: the type's own
//! ```
//! Offsets from the least value are frame of reference (Goldstein, Ramakrishnan, Shaft,
//! "Compressing Relations and Indexes", ICDE 1998), here in whole bytes; steps are for ascending
//! values, as keys of a table in their order. What lies under a NULL travels as it is. Where
//! nothing is packed, a validity bitmap is always there and numbers are the type's own.

mod read;
mod write;

use arrow::datatypes::ArrowNativeType;

pub(super) use self::{
    read::{Reader, read_column},
    write::write_column,
};

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const STEPS: u8 = 8;
const WHOLE: u8 = 15;

/// A value of a fixed width, seen as a number.
trait Number: ArrowNativeType {
    /// Its bytes in memory.
    const WIDTH: u8;
    /// The upper half of a form.
    const TYPE: u8;
    /// Whether 64 bits hold it.
    fn fits(self) -> bool;
    /// It, if 64 bits hold it; else its lower half.
    fn number(self) -> i64;
    fn of(number: i64) -> Self;
}

macro_rules! number {
    ($($native:ty: $width:literal, $log:literal;)*) => {$(
        impl Number for $native {
            const WIDTH: u8 = $width;
            const TYPE: u8 = $log << 4;
            #[inline(always)]
            fn fits(self) -> bool {
                true
            }
            #[inline(always)]
            fn number(self) -> i64 {
                i64::from(self)
            }
            #[inline(always)]
            fn of(number: i64) -> Self {
                // Only numbers that were in range are narrowed; others wrap, and mean nothing
                // anyway.
                number.to_le_bytes().first_chunk().map_or(0, |bytes|
                    <$native>::from_le_bytes(*bytes))
            }
        }
    )*};
}
number!(i8: 1, 0; i16: 2, 1; i32: 4, 2; i64: 8, 3;);

impl Number for i128 {
    const WIDTH: u8 = 16;
    const TYPE: u8 = 4 << 4;
    #[inline(always)]
    fn fits(self) -> bool {
        Self::from(self.number()) == self
    }
    #[inline(always)]
    fn number(self) -> i64 {
        self.to_le_bytes()
            .first_chunk()
            .map_or(0, |bytes| i64::from_le_bytes(*bytes))
    }
    #[inline(always)]
    fn of(number: i64) -> Self {
        Self::from(number)
    }
}
