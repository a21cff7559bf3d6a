//! Sizes of memory as people write them: `512MiB`, `2GiB`, `1073741824`.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySize(usize);

/// The text is no size.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "a size is a whole number and B, KiB, MiB, GiB or TiB (KB, MB, GB and TB are powers of ten), \
        and not nought"
)]
pub struct MemorySizeError;

impl MemorySize {
    /// In bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.0
    }
}

impl FromStr for MemorySize {
    type Err = MemorySizeError;

    fn from_str(text: &str) -> Result<Self, MemorySizeError> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: usize = number.parse().map_err(|_| MemorySizeError)?;
        let unit: usize = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(MemorySizeError),
        };
        match number.checked_mul(unit) {
            Some(bytes) if bytes > 0 => Ok(Self(bytes)),
            _ => Err(MemorySizeError),
        }
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("1", 1),
            ("512MiB", 512 << 20),
            ("2GiB", 2 << 30),
            ("2g", 2 << 30),
            ("3 kb", 3_000),
            ("1 TiB", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(MemorySize(bytes)), "{text}");
        }
        for text in [
            "",
            "0",
            "GiB",
            "-1",
            "1.5GiB",
            "1 parsec",
            "99999999999999999999",
        ] {
            assert_eq!(text.parse::<MemorySize>(), Err(MemorySizeError), "{text}");
        }
    }
}
