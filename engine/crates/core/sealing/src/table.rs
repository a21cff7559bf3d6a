//! What is said of an error, from one table: so that code, fault and hint of a variant stand beside
//! each other, and none is forgotten.

/// What a row's last column may be.
pub trait Hint {
    /// The text, if there is something to do.
    fn text(self) -> Option<String>;
}

impl Hint for &str {
    fn text(self) -> Option<String> {
        Some(self.to_owned())
    }
}

impl Hint for String {
    fn text(self) -> Option<String> {
        Some(self)
    }
}

impl Hint for Option<String> {
    fn text(self) -> Option<String> {
        self
    }
}

/// Gives an error type its methods `code` and `hint`, and `fault` where a type for that is named,
/// from one row for each variant: `PATTERN => CODE, FAULT, HINT;`. What a pattern binds may be used
/// in each column; the last may be left out.
///
/// ```
/// enum Error {
///     Late(u32),
///     Gone,
/// }
///
/// coffer_sealing::error_table! {
///     Error: &'static str;
///     Self::Late(hours) => "late", format!("come {hours} hours earlier");
///     Self::Gone => "gone";
/// }
///
/// assert_eq!(Error::Late(2).hint().as_deref(), Some("come 2 hours earlier"));
/// assert_eq!((Error::Gone.code(), Error::Gone.hint()), ("gone", None));
/// ```
#[macro_export]
macro_rules! error_table {
    ($error:ident: $code_type:ty; $($pattern:pat => $code:expr $(, $hint:expr)?;)+) => {
        impl $error {
            $crate::error_table!(@code $code_type; $($pattern => $code;)+);
            $crate::error_table!(@hint $($pattern => ($($hint)?);)+);
        }
    };
    ($error:ident: $code_type:ty,
        $fault_type:ty; $($pattern:pat => $code:expr, $fault:expr $(, $hint:expr)?;)+) => {
        impl $error {
            $crate::error_table!(@code $code_type; $($pattern => $code;)+);

            /// Who is at fault.
            #[allow(unused_variables, reason = "each column uses what it needs of a variant")]
            pub fn fault(&self) -> $fault_type {
                match self {
                    $($pattern => $fault,)+
                }
            }

            $crate::error_table!(@hint $($pattern => ($($hint)?);)+);
        }
    };
    (@code $code_type:ty; $($pattern:pat => $code:expr;)+) => {
        /// The check that refused, or the cause: a stable word, which says no value.
        #[allow(unused_variables, reason = "each column uses what it needs of a variant")]
        pub fn code(&self) -> $code_type {
            match self {
                $($pattern => $code,)+
            }
        }
    };
    (@hint $($pattern:pat => ($($hint:expr)?);)+) => {
        /// What to do about it, if there is something.
        #[allow(unused_variables, reason = "each column uses what it needs of a variant")]
        pub fn hint(&self) -> Option<String> {
            match self {
                $($pattern => $crate::error_table!(@text $($hint)?),)+
            }
        }
    };
    (@text) => {
        None
    };
    (@text $hint:expr) => {
        $crate::Hint::text($hint)
    };
}
