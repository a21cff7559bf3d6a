//! Paths of `get_json_object`, in Spark's grammar, and what they find.

use coffer_protocol::plan::FloatText;

use super::{
    reader::{Read, Reader, Stop, Token},
    writer::{Generator, Writer},
};
use crate::SparkError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Subscript,
    Wildcard,
    Key,
    Index(i64),
    Named(String),
}

/// `None`: not a path. White space may stand before a word of the grammar, not before a sign.
pub(crate) fn parse(path: &str) -> Result<Option<Vec<Step>>, SparkError> {
    let Some(mut rest) = path.strip_prefix('$') else {
        return Ok(None);
    };
    let mut steps = Vec::new();
    loop {
        let next = wildcard(rest, &mut steps).or_else(|| named(rest, &mut steps));
        let next = match next {
            Some(next) => Some(next),
            None => subscript(rest, &mut steps)?,
        };
        match next {
            Some(next) => rest = next,
            None => return Ok(spaced(rest).is_empty().then_some(steps)),
        }
    }
}

/// Behind white space, as Java's `\s` has it.
fn spaced(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r'])
}

fn wildcard<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let text = spaced(text);
    let rest = text
        .strip_prefix(".*")
        .or_else(|| text.strip_prefix("['*']"))?;
    steps.push(Step::Wildcard);
    Some(rest)
}

fn named<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let until = |text: &'a str, end: &[char]| {
        let at = text.find(end).unwrap_or(text.len());
        (at > 0).then(|| text.split_at(at))
    };
    let dotted = text
        .strip_prefix('.')
        .and_then(|rest| until(spaced(rest), &['.', '[']));
    let (name, rest) = dotted.or_else(|| {
        let rest = spaced(text).strip_prefix("['")?;
        let (name, rest) = until(spaced(rest), &['\''])?;
        Some((name, spaced(rest).strip_prefix("']")?))
    })?;
    steps.push(Step::Key);
    steps.push(Step::Named(name.to_owned()));
    Some(rest)
}

fn subscript<'a>(text: &'a str, steps: &mut Vec<Step>) -> Result<Option<&'a str>, SparkError> {
    let Some(text) = text.strip_prefix('[') else {
        return Ok(None);
    };
    let (step, rest) = match text.strip_prefix('*') {
        Some(rest) => (Step::Wildcard, rest),
        None => {
            let text = spaced(text);
            let end = text
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len());
            let (digits, rest) = text.split_at(end);
            if digits.is_empty() {
                return Ok(None);
            }
            let index = digits.parse().map_err(|_| {
                SparkError::new("INTERNAL_ERROR", format!("For input string: \"{digits}\""))
            })?;
            (Step::Index(index), rest)
        }
    };
    let Some(rest) = rest.strip_prefix(']') else {
        return Ok(None);
    };
    steps.push(Step::Subscript);
    steps.push(step);
    Ok(Some(rest))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Raw,
    Quoted,
    Flatten,
}

/// The text that the path finds in a JSON text.
pub(crate) fn found(json: &str, path: &[Step], floats: FloatText) -> Read<Option<String>> {
    let mut reader = Reader::new(json);
    let mut writer = Writer::new(Generator::OfBytes, floats);
    reader.next()?;
    let found = evaluate(&mut reader, &mut writer, Style::Raw, path, floats)?;
    match found {
        true => Ok(Some(writer.text()?.to_owned())),
        // Jackson has written it all the same, and may have failed.
        false => writer.text().map(|_| None),
    }
}

fn evaluate(
    p: &mut Reader<'_>,
    g: &mut Writer,
    style: Style,
    path: &[Step],
    floats: FloatText,
) -> Read<bool> {
    use Step::{Index, Key, Named, Subscript, Wildcard};
    use Token::{EndArray, EndObject, Name, Null, StartArray, StartObject};
    match (p.token(), path) {
        (Some(Token::String), []) if style == Style::Raw => {
            g.raw(&p.value());
            Ok(true)
        }
        (Some(StartArray), []) if style == Style::Flatten => {
            let mut dirty = false;
            while p.next()? != Some(EndArray) {
                dirty |= evaluate(p, g, style, &[], floats)?;
            }
            Ok(dirty)
        }
        (_, []) => g.copy(p).map(|()| true),
        (Some(StartObject), [Key, rest @ ..]) => {
            let mut dirty = false;
            while p.next()? != Some(EndObject) {
                if dirty {
                    p.skip_children()?;
                } else {
                    dirty = evaluate(p, g, style, rest, floats)?;
                }
            }
            Ok(dirty)
        }
        (Some(StartArray), [Subscript, Wildcard, Subscript, Wildcard, rest @ ..]) => {
            each(p, g, Style::Flatten, rest, floats)
        }
        (Some(StartArray), [Subscript, Wildcard, rest @ ..]) if style != Style::Quoted => {
            let inner = match style {
                Style::Raw => Style::Quoted,
                other => other,
            };
            let mut buffer = Writer::new(Generator::OfChars, floats);
            let mut dirty = 0;
            buffer.start(false)?;
            while p.next()? != Some(EndArray) {
                dirty += usize::from(evaluate(p, &mut buffer, inner, rest, floats)?);
            }
            buffer.end();
            match (dirty, buffer.out.as_slice()) {
                (0, _) => {}
                (1, [_, one @ .., _]) => g.raw_value(one),
                (_, all) => g.raw_value(all),
            }
            Ok(dirty > 0)
        }
        (Some(StartArray), [Subscript, Wildcard, rest @ ..]) => {
            each(p, g, Style::Quoted, rest, floats)
        }
        (Some(StartArray), [Subscript, Index(index), rest @ ..]) => {
            let style = match rest {
                [Subscript, Wildcard, ..] => Style::Quoted,
                _ => style,
            };
            p.next()?;
            for _ in 0..*index {
                if p.token() == Some(EndArray) {
                    return Ok(false);
                }
                p.skip_children()?;
                p.next()?;
            }
            if p.token() == Some(EndArray) {
                return Ok(false);
            }
            let dirty = evaluate(p, g, style, rest, floats)?;
            while p.next()? != Some(EndArray) {
                p.skip_children()?;
            }
            Ok(dirty)
        }
        (Some(Name), [Named(name), rest @ ..]) if *p.name() == *name.as_bytes() => {
            match p.next()? {
                Some(Null) => Ok(false),
                _ => evaluate(p, g, style, rest, floats),
            }
        }
        (Some(Name), [Wildcard, rest @ ..]) => {
            p.next()?;
            evaluate(p, g, style, rest, floats)
        }
        (None, _) => Err(Stop::Bad),
        _ => p.skip_children().map(|()| false),
    }
}

/// An array of what is found in each element.
fn each(
    p: &mut Reader<'_>,
    g: &mut Writer,
    style: Style,
    path: &[Step],
    floats: FloatText,
) -> Read<bool> {
    let mut dirty = false;
    g.start(false)?;
    while p.next()? != Some(Token::EndArray) {
        dirty |= evaluate(p, g, style, path, floats)?;
    }
    g.end();
    Ok(dirty)
}
