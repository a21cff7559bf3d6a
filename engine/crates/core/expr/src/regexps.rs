//! Regular expressions. The translator has put Java's syntax into that of `regex`; here is what
//! Java's `Matcher` does with a match: where it looks for the next one, and what it puts in.
//!
//! A pattern that ends with Java's `$` has a last group, `coffer_end`, that is no part of a match.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, ListBuilder, StringBuilder},
    datatypes::{DataType, Int32Type},
};
use datafusion_common::{Result, ScalarValue};
use regex::{Captures, Regex};

use crate::{
    SparkError, Unsupported,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    rows::{self, Argument, Given, Nulls, Row},
    types::{element_field, list_of},
    vector::{all_null, argument, array},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("regexp_like", Fallible::Never, like),
    entry("regexp_extract", Fallible::Always, extract),
    entry("regexp_extract_all", Fallible::Always, extract_all),
    entry("regexp_instr", Fallible::Never, instr),
    entry("regexp_replace", Fallible::Always, replace),
    entry("regexp_split", Fallible::Always, split),
];

type Built = Result<Kernel, Unsupported>;

const END: &str = "coffer_end";

struct Pattern {
    regex: Regex,
    /// Groups that the user wrote.
    groups: usize,
    ends: bool,
}

/// A match: its bounds, and its groups where they were asked for.
struct Match<'t> {
    start: usize,
    end: usize,
    groups: Option<Captures<'t>>,
}

impl<'t> Match<'t> {
    /// A group's text; none where it took no part.
    fn group(&self, text: &'t str, index: usize) -> Option<&'t str> {
        match index {
            0 => text.get(self.start..self.end),
            index => Some(self.groups.as_ref()?.get(index)?.as_str()),
        }
    }
}

impl Pattern {
    fn new(call: &CallInfo<'_>) -> Result<Option<Self>, Unsupported> {
        let pattern = match call.literal(1)? {
            ScalarValue::Utf8(Some(pattern)) => pattern,
            _ => return Ok(None),
        };
        let regex = Regex::new(pattern).map_err(|_| call.unsupported("this pattern"))?;
        let ends = regex.capture_names().flatten().any(|name| name == END);
        Ok(Some(Self {
            groups: regex.captures_len() - 1 - usize::from(ends),
            ends,
            regex,
        }))
    }

    /// The next match. Where no `groups` are wanted that costs a fraction.
    fn at<'t>(&self, text: &'t str, from: usize, groups: bool) -> Option<Match<'t>> {
        if !groups && !self.ends {
            let found = self.regex.find_at(text, from)?;
            return Some(Match {
                start: found.start(),
                end: found.end(),
                groups: None,
            });
        }
        let groups = self.regex.captures_at(text, from)?;
        let whole = groups.get(0)?;
        let end = match self.ends {
            true => groups.name(END).map(|end| end.start()),
            false => None,
        };
        Some(Match {
            start: whole.start(),
            end: end.unwrap_or(whole.end()),
            groups: Some(groups),
        })
    }

    /// `Matcher.find` until there is nothing more: behind an empty match it looks one further.
    fn each<'t>(
        &self,
        text: &'t str,
        groups: bool,
        mut f: impl FnMut(&Match<'t>) -> bool,
    ) -> std::result::Result<(), SparkError> {
        let mut from = 0;
        while let Some(found) = self.at(text, from, groups) {
            if !f(&found) {
                break;
            }
            from = found.end;
            if found.start == found.end {
                match text.get(from..).and_then(|rest| rest.chars().next()) {
                    None => break,
                    // Java would stop between the halves of a surrogate pair.
                    Some(c) if c.len_utf16() > 1 => {
                        return Err(SparkError::new(
                            "UNSUPPORTED_EMPTY_MATCH",
                            "a pattern matched nothing before a character outside of the BMP",
                        ));
                    }
                    Some(c) => from += c.len_utf8(),
                }
            }
        }
        Ok(())
    }

    /// The group that a row asks for.
    fn index(&self, row: &Row<'_>, index: usize) -> Given<usize> {
        let Some(asked) = row.long(index) else {
            return Ok(None);
        };
        match usize::try_from(asked)
            .ok()
            .filter(|asked| *asked <= self.groups)
        {
            Some(asked) => Ok(Some(asked)),
            None => Err(SparkError::new(
                "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX",
                format!(
                    "Expects group index between 0 and {}, but got {asked}.",
                    self.groups
                ),
            )),
        }
    }
}

fn nothing(ret: &DataType) -> Kernel {
    let ret = ret.clone();
    Arc::new(move |_, rows| Ok(all_null(&ret, rows)))
}

fn like(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Utf8, DataType::Utf8], &DataType::Boolean)?;
    let Some(pattern) = Pattern::new(call)? else {
        return Ok(nothing(call.ret));
    };
    Ok(rows::truth(Nulls::GiveNull, move |row| {
        Ok(row.text(0).map(|text| pattern.regex.is_match(text)))
    }))
}

fn extract(call: &CallInfo<'_>) -> Built {
    let types = [DataType::Utf8, DataType::Utf8, DataType::Int32];
    rows::takes(call, &types, &DataType::Utf8)?;
    let Some(pattern) = Pattern::new(call)? else {
        return Ok(nothing(call.ret));
    };
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let Some(text) = row.text(0) else {
            return Ok(None);
        };
        if let Some(found) = pattern.at(text, 0, row.long(2) != Some(0)) {
            let Some(index) = pattern.index(row, 2)? else {
                return Ok(None);
            };
            out.push_str(found.group(text, index).unwrap_or_default());
        }
        Ok(Some(()))
    }))
}

fn instr(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[DataType::Utf8, DataType::Utf8], &DataType::Int32)?;
    let Some(pattern) = Pattern::new(call)? else {
        return Ok(nothing(call.ret));
    };
    Ok(rows::number::<Int32Type>(
        call.ret,
        Nulls::GiveNull,
        move |row| {
            let Some(text) = row.text(0) else {
                return Ok(None);
            };
            let found = pattern
                .at(text, 0, false)
                .and_then(|found| text.get(..found.start));
            // Java counts UTF-16 units.
            let place = found.map_or(0, |before| before.encode_utf16().count() + 1);
            Ok(Some(i32::try_from(place).unwrap_or(i32::MAX)))
        },
    ))
}

/// A piece of a replacement: text, or a group.
enum Piece {
    Text(String),
    Group(usize),
}

/// `$$` is a dollar, `${3}` a group.
fn pieces(replacement: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = replacement;
    while let Some(at) = rest.find('$') {
        let (before, behind) = rest.split_at(at);
        pieces.push(Piece::Text(before.to_owned()));
        let group = behind
            .strip_prefix("${")
            .and_then(|rest| rest.split_once('}'));
        match group.and_then(|(index, rest)| Some((index.parse().ok()?, rest))) {
            Some((index, tail)) => {
                pieces.push(Piece::Group(index));
                rest = tail;
            }
            None => {
                pieces.push(Piece::Text("$".into()));
                rest = behind.strip_prefix("$$").unwrap_or_default();
            }
        }
    }
    pieces.push(Piece::Text(rest.to_owned()));
    pieces
}

fn replace(call: &CallInfo<'_>) -> Built {
    let types = [DataType::Utf8, DataType::Utf8, DataType::Utf8];
    rows::takes(call, &types, &DataType::Utf8)?;
    let Some(pattern) = Pattern::new(call)? else {
        return Ok(nothing(call.ret));
    };
    let with = match call.literal(2)? {
        ScalarValue::Utf8(Some(with)) => pieces(with),
        _ => return Ok(nothing(call.ret)),
    };
    let groups = with.iter().any(|piece| matches!(piece, Piece::Group(1..)));
    Ok(rows::text(Nulls::GiveNull, move |row, out| {
        let Some(text) = row.text(0) else {
            return Ok(None);
        };
        let (mut last, mut bad) = (0, false);
        pattern.each(text, groups, |found| {
            out.push_str(text.get(last..found.start).unwrap_or_default());
            last = found.end;
            for piece in &with {
                match piece {
                    Piece::Text(text) => out.push_str(text),
                    Piece::Group(index) if *index > pattern.groups => bad = true,
                    Piece::Group(index) => {
                        out.push_str(found.group(text, *index).unwrap_or_default());
                    }
                }
            }
            !bad
        })?;
        if bad {
            return Err(SparkError::new(
                "INVALID_REGEXP_REPLACE",
                "Could not perform regexp_replace: there is no such group.",
            ));
        }
        out.push_str(text.get(last..).unwrap_or_default());
        Ok(Some(()))
    }))
}

/// To lists: `f` says whether there is one, and adds its elements.
fn lists(
    call: &CallInfo<'_>,
    f: impl for<'a> Fn(&Row<'a>, &mut Vec<&'a str>) -> std::result::Result<bool, SparkError>
    + Send
    + Sync
    + 'static,
) -> Built {
    let types = [DataType::Utf8, DataType::Utf8, DataType::Int32];
    rows::takes(call, &types, &list_of(DataType::Utf8))?;
    Ok(Arc::new(move |args, rows| {
        let arrays = args
            .iter()
            .enumerate()
            .map(|(index, _)| array(argument(args, index)?, rows))
            .collect::<Result<Vec<_>>>()?;
        let arguments: Vec<_> = arrays
            .iter()
            .map(|array| Argument::of(array, false))
            .collect();
        let mut out =
            ListBuilder::new(StringBuilder::new()).with_field(element_field(DataType::Utf8));
        let mut parts = Vec::new();
        for row in 0..rows {
            parts.clear();
            let is_list = f(&Row::of(&arguments, row), &mut parts)?;
            for part in &parts {
                out.values().append_value(part);
            }
            out.append(is_list);
        }
        Ok(Arc::new(out.finish()) as ArrayRef)
    }))
}

fn extract_all(call: &CallInfo<'_>) -> Built {
    let Some(pattern) = Pattern::new(call)? else {
        return Ok(nothing(call.ret));
    };
    lists(call, move |row, parts| {
        let (Some(text), Some(asked)) = (row.text(0), row.long(2)) else {
            return Ok(false);
        };
        let mut wrong = None;
        pattern.each(text, asked != 0, |found| match pattern.index(row, 2) {
            Ok(index) => {
                let part = index.and_then(|index| found.group(text, index));
                parts.push(part.unwrap_or_default());
                true
            }
            Err(error) => {
                wrong = Some(error);
                false
            }
        })?;
        wrong.map_or(Ok(true), Err)
    })
}

/// `String.split`: no more parts than the limit if that is positive, else all.
fn split(call: &CallInfo<'_>) -> Built {
    let Some(pattern) = Pattern::new(call)? else {
        return Ok(nothing(call.ret));
    };
    let empty = pattern.regex.as_str().is_empty();
    lists(call, move |row, parts| {
        let (Some(text), Some(limit)) = (row.text(0), row.long(2)) else {
            return Ok(false);
        };
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
        if empty && !text.is_empty() {
            // Spark's own: a part for each character.
            let most = limit.unwrap_or(usize::MAX);
            let mut rest = text;
            for c in text.chars().take(most) {
                let (part, tail) = rest.split_at(c.len_utf8());
                parts.push(part);
                rest = tail;
            }
            return Ok(true);
        }
        let mut last = 0;
        pattern.each(text, false, |found| {
            if limit.is_some_and(|limit| parts.len() + 1 >= limit) {
                return false;
            }
            // Nothing at the very beginning makes no part.
            if found.end > 0 || found.start != found.end {
                parts.push(text.get(last..found.start).unwrap_or_default());
                last = found.end;
            }
            true
        })?;
        parts.push(text.get(last..).unwrap_or_default());
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    /// The largest that the translator emits: what `JavaPatterns` bounds must be within the limits
    /// of `regex`.
    #[test]
    fn the_largest_patterns_compile() {
        for size in [
            "[^a]",
            "(?s:.)",
            "[^\\n\\r\\x{85}\\x{2028}\\x{2029}]",
            "\\x{65e5}",
        ] {
            let once = 10_000 / size.len();
            assert!(Regex::new(&size.repeat(once)).is_ok(), "{size}");
            let (inner, outer) = (once.min(100), once / once.min(100));
            let nested = format!("(?:(?:{size}){{{inner}}}){{{outer}}}");
            assert!(Regex::new(&nested).is_ok(), "{nested}");
        }
        let deep = format!("{}x{}", "(?:(|a".repeat(40), "b)+)?".repeat(40));
        assert!(Regex::new(&deep).is_ok(), "{deep}");
    }
}
