//! LIKE and RLIKE. The pattern is a literal: it is analysed once, and the usual shapes take no
//! regular expression.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray},
    datatypes::DataType,
};
use datafusion_common::ScalarValue;
use memchr::memmem::Finder;

use super::{Built, Texts, search, texts};
use crate::{function::CallInfo, vector::all_null};

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(String),
    /// `_`
    One,
    /// `%`
    Any,
}

/// A pattern ready to run.
#[derive(Debug)]
enum Matcher {
    Equals(String),
    Starts(String),
    Ends(String),
    Contains(Box<Finder<'static>>),
    /// `a%b`: both, without overlap.
    Around(String, String),
    /// Texts in this order, after a start and before an end.
    Sequence {
        start: String,
        middle: Vec<Finder<'static>>,
        end: String,
    },
    General(Vec<Token>),
}

pub(super) fn like(call: &CallInfo<'_>) -> Built {
    let (
        [DataType::Utf8, DataType::Utf8] | [DataType::Utf8, DataType::Utf8, DataType::Utf8],
        DataType::Boolean,
    ) = (call.types, call.ret)
    else {
        return Err(call.bad_types());
    };
    let escape = match call.args.len() {
        2 => '\\',
        _ => match call.literal(2)? {
            ScalarValue::Utf8(Some(text)) if text.chars().count() == 1 => {
                text.chars().next().unwrap_or('\\')
            }
            _ => return Err(call.unsupported("the escape must be one character")),
        },
    };
    let pattern = match call.literal(1)? {
        ScalarValue::Utf8(Some(pattern)) => pattern,
        _ => return Ok(Arc::new(|_, rows| Ok(all_null(&DataType::Boolean, rows)))),
    };
    let matcher = Matcher::new(tokens(pattern, escape).ok_or_else(|| {
        call.unsupported(
            "the pattern's escape character stands at its end or before a character \
            that needs none",
        )
    })?);
    Ok(Arc::new(move |args, rows| {
        let values = texts(args, 0)?;
        Ok(Arc::new(matcher.column(&values, rows)) as ArrayRef)
    }))
}

/// RLIKE for the patterns on which Java's and Rust's regular expressions agree.
pub(super) fn rlike(call: &CallInfo<'_>) -> Built {
    let ([DataType::Utf8, DataType::Utf8], DataType::Boolean) = (call.types, call.ret) else {
        return Err(call.bad_types());
    };
    let pattern = match call.literal(1)? {
        ScalarValue::Utf8(Some(pattern)) => pattern,
        _ => return Ok(Arc::new(|_, rows| Ok(all_null(&DataType::Boolean, rows)))),
    };
    if !portable(pattern) {
        return Err(
            call.unsupported("the pattern uses syntax on which Java and the engine may differ")
        );
    }
    let regex =
        regex::Regex::new(pattern).map_err(|e| call.unsupported(format!("the pattern: {e}")))?;
    Ok(Arc::new(move |args, rows| {
        let values = texts(args, 0)?;
        let truths: BooleanArray = (0..rows)
            .map(|row| values.get(row).map(|text| regex.is_match(text)))
            .collect();
        Ok(Arc::new(truths) as ArrayRef)
    }))
}

/// Literals, groups, alternation, classes of plain characters and ranges, `* + ? {n,m}`, `^`. Left
/// out: `.` and `$` (line terminators differ) unless `$` is absent, all escapes but of punctuation,
/// look-around, nested classes.
fn portable(pattern: &str) -> bool {
    let mut in_class = false;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next) if next.is_ascii_punctuation() && !matches!(next, '<' | '>') => {}
                _ => return false,
            },
            '[' if in_class => return false,
            '[' => in_class = true,
            ']' => in_class = false,
            '&' | '~' | '-' if in_class && chars.peek() == Some(&c) => return false,
            '.' | '$' if !in_class => return false,
            '(' if !in_class && chars.peek() == Some(&'?') => return false,
            '*' | '+' | '?' | '}' if !in_class && chars.peek() == Some(&'+') => return false,
            _ if c.is_ascii() => {}
            _ => return false,
        }
    }
    !in_class
}

/// None if the escape character is at the end or before anything but `_`, `%` and itself: Spark
/// refuses those.
fn tokens(pattern: &str, escape: char) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let push = |tokens: &mut Vec<Token>, c: char| match tokens.last_mut() {
        Some(Token::Text(text)) => text.push(c),
        _ => tokens.push(Token::Text(c.into())),
    };
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == escape {
            let next = chars.next()?;
            if !(next == '_' || next == '%' || next == escape) {
                return None;
            }
            push(&mut tokens, next);
        } else if c == '_' {
            tokens.push(Token::One);
        } else if c == '%' {
            if tokens.last() != Some(&Token::Any) {
                tokens.push(Token::Any);
            }
        } else {
            push(&mut tokens, c);
        }
    }
    Some(tokens)
}

impl Matcher {
    fn new(tokens: Vec<Token>) -> Self {
        if tokens.contains(&Token::One) {
            return Self::General(tokens);
        }
        let text = |token: &Token| match token {
            Token::Text(text) => text.clone(),
            _ => String::new(),
        };
        match tokens.as_slice() {
            [] => Self::Equals(String::new()),
            [Token::Text(only)] => Self::Equals(only.clone()),
            [Token::Any] => Self::Starts(String::new()),
            [Token::Text(start), Token::Any] => Self::Starts(start.clone()),
            [Token::Any, Token::Text(end)] => Self::Ends(end.clone()),
            [Token::Any, Token::Text(part), Token::Any] => {
                Self::Contains(Box::new(Finder::new(part).into_owned()))
            }
            [Token::Text(start), Token::Any, Token::Text(end)] => {
                Self::Around(start.clone(), end.clone())
            }
            [first, inner @ .., last] => {
                let texts = inner.iter().filter(|token| **token != Token::Any).map(text);
                let middle = texts.map(|part| Finder::new(&part).into_owned()).collect();
                Self::Sequence {
                    start: text(first),
                    middle,
                    end: text(last),
                }
            }
            [Token::One] => Self::General(tokens),
        }
    }

    fn column(&self, texts: &Texts, rows: usize) -> BooleanArray {
        match self {
            Self::Contains(part) => search::holds(texts, rows, part, |_| true),
            Self::Sequence { start, middle, end } if start.is_empty() && end.is_empty() => {
                match middle.split_first() {
                    Some((first, then)) => {
                        search::holds(texts, rows, first, |rest| in_order(then, rest))
                    }
                    None => self.each(texts, rows),
                }
            }
            _ => self.each(texts, rows),
        }
    }

    fn each(&self, texts: &Texts, rows: usize) -> BooleanArray {
        (0..rows)
            .map(|row| texts.get(row).map(|text| self.matches(text)))
            .collect()
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Equals(whole) => text == whole,
            Self::Starts(start) => text.starts_with(start.as_str()),
            Self::Ends(end) => text.ends_with(end.as_str()),
            Self::Contains(part) => part.find(text.as_bytes()).is_some(),
            Self::Around(start, end) => text
                .strip_prefix(start.as_str())
                .is_some_and(|rest| rest.ends_with(end.as_str())),
            Self::Sequence { start, middle, end } => {
                let Some(rest) = text
                    .strip_prefix(start.as_str())
                    .and_then(|t| t.strip_suffix(end.as_str()))
                else {
                    return false;
                };
                in_order(middle, rest.as_bytes())
            }
            Self::General(tokens) => general(tokens, text),
        }
    }
}

/// Whether the bytes hold these texts, each after the one before. A text within a text begins and
/// ends at characters, so bytes will do.
fn in_order(parts: &[Finder<'_>], mut rest: &[u8]) -> bool {
    parts.iter().all(|part| {
        let after = part
            .find(rest)
            .and_then(|at| rest.get(at + part.needle().len()..));
        rest = after.unwrap_or_default();
        after.is_some()
    })
}

/// Greedy with one point of return: a later `%` makes an earlier one's choice final.
fn general(tokens: &[Token], text: &str) -> bool {
    let (mut rest, mut left) = (text, tokens);
    let mut retry: Option<(&str, &[Token])> = None;
    loop {
        let stepped = match left.split_first() {
            None if rest.is_empty() => return true,
            None => None,
            Some((Token::Any, after)) => {
                retry = Some((rest, after));
                left = after;
                continue;
            }
            Some((Token::One, after)) => {
                let mut chars = rest.chars();
                chars.next().map(|_| (chars.as_str(), after))
            }
            Some((Token::Text(part), after)) => {
                rest.strip_prefix(part.as_str()).map(|rest| (rest, after))
            }
        };
        match (stepped, retry) {
            (Some(next), _) => (rest, left) = next,
            (None, Some((from, after))) => {
                let mut chars = from.chars();
                if chars.next().is_none() {
                    return false;
                }
                (rest, left) = (chars.as_str(), after);
                retry = Some((rest, after));
            }
            (None, None) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_regular_expression() {
        let patterns = [
            "", "a", "%", "a%", "%a", "%a%", "a%b", "a%b%c", "%a%b%", "_", "a_", "_%", "%_b%",
            "a__%b", "%é_", "a%%b",
        ];
        let texts = [
            "", "a", "b", "ab", "ba", "aab", "abc", "a\nb", "axbxc", "éa", "aé😀", "aaab", "abab",
            "ABC",
        ];
        for pattern in patterns {
            let mut regex = String::from("(?s)^");
            for c in pattern.chars() {
                match c {
                    '_' => regex.push('.'),
                    '%' => regex.push_str(".*"),
                    c => regex.push_str(&regex::escape(&c.to_string())),
                }
            }
            let regex = regex::Regex::new(&(regex + r"\z")).unwrap();
            let matcher = Matcher::new(tokens(pattern, '\\').unwrap());
            let all: Texts = Texts::Array(texts.iter().copied().map(Some).collect());
            let column = matcher.column(&all, texts.len());
            for (row, text) in texts.iter().enumerate() {
                assert_eq!(
                    matcher.matches(text),
                    regex.is_match(text),
                    "{text:?} LIKE {pattern:?}"
                );
                assert_eq!(
                    column.value(row),
                    regex.is_match(text),
                    "{text:?} LIKE {pattern:?} in a column"
                );
            }
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(tokens(r"a\_b", '\\'), Some(vec![Token::Text("a_b".into())]));
        assert_eq!(
            tokens("a|%%", '|'),
            Some(vec![Token::Text("a%".into()), Token::Any])
        );
        assert_eq!(tokens(r"a\", '\\'), None);
        assert_eq!(tokens(r"\a", '\\'), None);
    }

    #[test]
    fn regular_expressions_that_may_differ_are_refused() {
        for pattern in ["a.b", "a$", r"\d", "(?i)a", "[a&&b]", "a++", "é"] {
            assert!(!portable(pattern), "{pattern}");
        }
        for pattern in ["^ab*", "[a-z]+", r"a\.b", "(a|b){2}"] {
            assert!(portable(pattern), "{pattern}");
        }
    }
}
