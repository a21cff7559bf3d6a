//! `to_number`: a number by a picture of it, as `ToNumberParser` reads one.

use arrow::datatypes::{DataType, Decimal128Type};

use super::{Built, UTF8, literal_text};
use crate::{
    SparkError,
    function::CallInfo,
    rows::{self, Given, Nulls},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Digits {
    count: usize,
    /// As many, and no fewer.
    exactly: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// From the last group to the first.
    Groups(Vec<Digits>),
    Separator,
    Point,
    Dollar,
    PlusOrMinus,
    Minus,
    Open,
    Close,
}

/// The picture's parts; `None` if a character has no meaning.
fn tokens(picture: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let (mut rest, mut behind_point) = (picture, false);
    while let Some(first) = rest.chars().next() {
        let (token, used) = match first {
            '0' | '9' => {
                let count = rest
                    .bytes()
                    .take_while(|b| matches!(b, b'0' | b'9'))
                    .count();
                let exactly = first == '0' && !behind_point;
                (Token::Groups(vec![Digits { count, exactly }]), count)
            }
            '.' | 'D' => {
                behind_point = true;
                (Token::Point, 1)
            }
            ',' | 'G' => (Token::Separator, 1),
            '$' => (Token::Dollar, 1),
            'S' => (Token::PlusOrMinus, 1),
            'M' if rest.starts_with("MI") => (Token::Minus, 2),
            'P' if rest.starts_with("PR") => {
                tokens.insert(0, Token::Open);
                (Token::Close, 2)
            }
            _ => return None,
        };
        tokens.push(token);
        rest = rest.get(used..)?;
    }
    let mut grouped: Vec<Token> = Vec::new();
    let mut group: Option<Vec<Digits>> = None;
    for token in tokens {
        match token {
            Token::Groups(digits) => {
                let group = group.get_or_insert_default();
                group.splice(0..0, digits);
            }
            Token::Separator => {
                group.get_or_insert_default();
            }
            other => {
                grouped.extend(group.take().map(Token::Groups));
                grouped.push(other);
            }
        }
    }
    grouped.extend(group.map(Token::Groups));
    Some(grouped)
}

pub(super) fn to_number(call: &CallInfo<'_>) -> Built {
    let (precision, scale) = match (call.types, call.ret) {
        ([UTF8, UTF8], DataType::Decimal128(precision, scale)) => {
            (*precision, usize::try_from(*scale).unwrap_or(0))
        }
        _ => return Err(call.bad_types()),
    };
    let most = 10i128.pow(precision.into());
    let tokens = match literal_text(call, 1)? {
        Some(picture) => Some(tokens(picture).ok_or_else(|| call.unsupported("this format"))?),
        None => None,
    };
    let fails = call.ansi();
    Ok(rows::number::<Decimal128Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let (Some(text), Some(tokens)) = (row.text(0), &tokens) else {
                return Ok(None);
            };
            match read(text, tokens, scale)? {
                None if fails => Err(SparkError::new(
                    "INVALID_FORMAT.MISMATCH_INPUT",
                    "The input does not match the format.",
                )),
                Some(number) if number.abs() >= most => Err(SparkError::new(
                    "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
                    format!("The number has more digits than DECIMAL({precision},{scale})."),
                )),
                number => Ok(number),
            }
        },
    ))
}

/// `Character.isWhitespace`.
fn is_space(c: char) -> bool {
    match c {
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        '\u{1c}'..='\u{1f}' => true,
        c => c.is_whitespace(),
    }
}

fn read(text: &str, tokens: &[Token], scale: usize) -> Given<i128> {
    let mut rest = text;
    let (mut before, mut after) = (String::new(), String::new());
    let (mut behind_point, mut opened, mut closed, mut negative) = (false, false, false, false);
    for token in tokens {
        let next = rest.chars().next();
        let taken = match (token, next) {
            (Token::Groups(expected), _) => {
                let digits = if behind_point {
                    &mut after
                } else {
                    &mut before
                };
                match groups(rest, expected, digits)? {
                    Some(behind) => rest = behind,
                    None => return Ok(None),
                }
                false
            }
            (Token::Point, Some('.')) => {
                behind_point = true;
                true
            }
            (Token::Dollar, Some('$')) | (Token::PlusOrMinus, Some('+')) => true,
            (Token::Dollar, Some(_)) => return Ok(None),
            (Token::PlusOrMinus | Token::Minus, Some('-')) => {
                negative = !negative;
                true
            }
            (Token::Open, Some('<')) => {
                if opened {
                    return Ok(None);
                }
                opened = true;
                true
            }
            (Token::Close, Some('>')) => {
                if !opened {
                    return Ok(None);
                }
                closed = true;
                negative = !negative;
                true
            }
            _ => false,
        };
        if taken {
            rest = rest.get(1..).unwrap_or_default();
        }
    }
    if !rest.is_empty() || opened != closed || (before.is_empty() && after.is_empty()) {
        return Ok(None);
    }
    let number: Option<i128> = format!("{before}{after:0<scale$}").parse().ok();
    let number = number.ok_or_else(|| SparkError::new("INTERNAL_ERROR", "no such decimal"))?;
    Ok(Some(if negative { -number } else { number }))
}

/// Digits with separators between and white space anywhere, if they are as many as expected; what
/// is behind them.
fn groups<'a>(text: &'a str, expected: &[Digits], digits: &mut String) -> Given<&'a str> {
    let mut counts = vec![0usize];
    let mut rest = text;
    for c in text.chars() {
        match c {
            '0'..='9' => {
                if let Some(count) = counts.first_mut() {
                    *count += 1;
                }
                digits.push(c);
            }
            ',' => counts.insert(0, 0),
            c if is_space(c) => {}
            c if !c.is_ascii() && c <= '\u{ffff}' && c.is_numeric() => {
                return Err(SparkError::new(
                    "UNSUPPORTED_DIGITS",
                    "digits of other scripts than Latin are not supported",
                ));
            }
            _ => break,
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    if counts.len() > expected.len() {
        return Ok(None);
    }
    let fits = expected.iter().enumerate().all(|(index, expected)| {
        let count = counts.get(index).copied().unwrap_or(0);
        if expected.exactly {
            count == expected.count
        } else {
            count <= expected.count
        }
    });
    Ok(fits.then_some(rest))
}
