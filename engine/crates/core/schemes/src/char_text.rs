//! CHAR(n) and VARCHAR(n): strings to whoever stores them, but for these rules of Spark's.
//! Characters are code points.
//!
//! Schemes show whether stored values are equal, so a CHAR has one stored value for all spellings
//! of it: padded.

use std::borrow::Cow;

/// What reading a CHAR(`length`) gives: padded with spaces. A text that is longer stays as it is.
pub fn padded(text: &str, length: usize) -> Cow<'_, str> {
    let missing = length.saturating_sub(text.chars().count());
    if missing == 0 {
        return Cow::Borrowed(text);
    }
    let mut whole = String::with_capacity(text.len().saturating_add(missing));
    whole.push_str(text);
    whole.extend(std::iter::repeat_n(' ', missing));
    Cow::Owned(whole)
}

/// What a column of VARCHAR(`limit`) stores: the text, without as many of its last spaces as are
/// too many. None: it is too long.
pub fn limited(text: &str, limit: usize) -> Option<&str> {
    // A character has at least one byte.
    let surplus = match text.len() <= limit {
        true => 0,
        false => text.chars().count().saturating_sub(limit),
    };
    let end = text.len().checked_sub(surplus)?;
    let (kept, cut) = (text.get(..end)?, text.get(end..)?);
    cut.bytes().all(|byte| byte == b' ').then_some(kept)
}

/// What a column of CHAR(`length`) stores: exactly so many characters. None: the text is too long.
pub fn fixed(text: &str, length: usize) -> Option<Cow<'_, str>> {
    limited(text, length).map(|text| padded(text, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_count_not_bytes() {
        assert_eq!(padded("é😀", 4), "é😀  ");
        assert_eq!(limited("é😀", 2), Some("é😀"));
        assert_eq!(limited("é😀x", 2), None);
        assert_eq!(fixed("é😀   ", 3).as_deref(), Some("é😀 "));
    }

    #[test]
    fn only_as_many_spaces_go_as_are_too_many() {
        assert_eq!(limited("ab    ", 4), Some("ab  "));
        assert_eq!(limited("ab    ", 2), Some("ab"));
        assert_eq!(limited("ab    ", 1), None);
        assert_eq!(limited("ab  \t", 4), None);
        assert_eq!(limited("      ", 0), Some(""));
        assert_eq!(fixed("", 2).as_deref(), Some("  "));
        assert_eq!(fixed("abc", 2), None);
    }
}
