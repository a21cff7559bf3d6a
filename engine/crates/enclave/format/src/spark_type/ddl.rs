//! The text of types and of columns, as Spark writes them.

use super::{MAX_DEPTH, SparkType, TOO_DEEP, flat, interval};

/// Parses Spark's DDL for columns, `a INT, b DECIMAL(12,2) NOT NULL`, names in backquotes if need
/// be. Gives name, type and whether NULL is allowed. Comments are read over.
pub fn parse_ddl(ddl: &str) -> Result<Vec<(String, SparkType, bool)>, String> {
    let mut ddl = Ddl::over(ddl);
    let mut columns = vec![ddl.field(MAX_DEPTH)?];
    while ddl.eat(',') {
        columns.push(ddl.field(MAX_DEPTH)?);
    }
    ddl.end()?;
    Ok(columns)
}

/// Reads DDL text from the front.
pub(super) struct Ddl<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Ddl<'a> {
    pub(super) fn over(text: &'a str) -> Self {
        Self {
            text,
            rest: text.trim_start(),
        }
    }

    fn wrong(&self, what: &str) -> String {
        format!("`{}`: {what}", self.text.trim())
    }

    fn eat(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn want(&mut self, c: char) -> Result<(), String> {
        match self.eat(c) {
            true => Ok(()),
            false => Err(self.wrong(&format!("`{c}` is missing"))),
        }
    }

    pub(super) fn end(&self) -> Result<(), String> {
        match self.rest {
            "" => Ok(()),
            rest => Err(self.wrong(&format!("`{rest}` is not of it"))),
        }
    }

    /// What comes before the first of the characters that end it.
    fn until(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let (before, rest) = self
            .rest
            .split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        before
    }

    fn word(&mut self, word: &str) -> bool {
        let before = self.rest;
        let found = self.until(|c| !c.is_alphanumeric() && c != '_');
        let is = found.eq_ignore_ascii_case(word);
        if !is {
            self.rest = before;
        }
        is
    }

    /// What lies between two of this mark; the mark doubled is the mark itself.
    fn quoted(&mut self, mark: char) -> Result<String, String> {
        let open = self.wrong(if mark == '`' {
            "a backquote is not closed"
        } else {
            "a quote is not closed"
        });
        let mut found = String::new();
        let mut rest = self.rest.strip_prefix(mark).ok_or_else(|| open.clone())?;
        loop {
            let (before, after) = rest.split_once(mark).ok_or_else(|| open.clone())?;
            found.push_str(before);
            match after.strip_prefix(mark) {
                Some(after) => {
                    found.push(mark);
                    rest = after;
                }
                None => {
                    self.rest = after.trim_start();
                    return Ok(found);
                }
            }
        }
    }

    /// A name, a type, and perhaps NOT NULL and a comment.
    fn field(&mut self, depth: u32) -> Result<(String, SparkType, bool), String> {
        let name = match self.rest.starts_with('`') {
            true => self.quoted('`')?,
            false => self
                .until(|c| c.is_whitespace() || ":,<>()".contains(c))
                .to_owned(),
        };
        self.eat(':');
        if name.is_empty() || self.rest.is_empty() {
            return Err(self.wrong("expected a name and a type, as in `a INT`"));
        }
        let kind = self.kind(depth)?;
        let nullable = !self.word("not");
        if !nullable && !self.word("null") {
            return Err(self.wrong("NOT is followed by NULL"));
        }
        if self.word("comment") {
            let mark = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
            self.quoted(mark.unwrap_or('\''))?;
        }
        Ok((name, kind, nullable))
    }

    pub(super) fn kind(&mut self, depth: u32) -> Result<SparkType, String> {
        let name = self.until(|c| !c.is_alphanumeric() && c != '_');
        if name.eq_ignore_ascii_case("interval") {
            return self.interval();
        }
        if !self.eat('<') {
            let arguments = match self.eat('(') {
                true => {
                    let arguments = self.until(|c| c == ')');
                    self.want(')')?;
                    Some(arguments)
                }
                false => None,
            };
            return flat(name, arguments);
        }
        let depth = depth.checked_sub(1).ok_or_else(|| self.wrong(TOO_DEEP))?;
        let kind = match name.to_ascii_lowercase().as_str() {
            "array" => SparkType::array(self.inner(depth)?),
            "map" => {
                let key = self.inner(depth)?;
                self.want(',')?;
                SparkType::map(key, self.inner(depth)?)
            }
            "struct" => {
                let mut fields = Vec::new();
                while fields.is_empty() || self.eat(',') {
                    let (name, kind, nullable) = self.field(depth)?;
                    if !nullable {
                        return Err(self.wrong(
                            "NOT NULL inside of a nested type is not supported; say it of the \
                                 column",
                        ));
                    }
                    fields.push((name, self.values_inside(kind)?));
                }
                SparkType::structure(fields)
            }
            _ => return Err(self.wrong(&format!("`{name}` takes no types"))),
        };
        self.want('>')?;
        Ok(kind)
    }

    /// The fields of an interval: one, or one TO another.
    fn interval(&mut self) -> Result<SparkType, String> {
        let first = self.until(|c| !c.is_alphanumeric() && c != '_');
        let last = match self.word("to") {
            true => self.until(|c| !c.is_alphanumeric() && c != '_'),
            false => first,
        };
        interval(first, last).ok_or_else(|| {
            self.wrong("an INTERVAL is of YEAR TO MONTH, of DAY TO SECOND, or of fewer fields")
        })
    }

    fn inner(&mut self, depth: u32) -> Result<SparkType, String> {
        let kind = self.kind(depth)?;
        self.values_inside(kind)
    }

    fn values_inside(&self, kind: SparkType) -> Result<SparkType, String> {
        match kind == kind.of_values() {
            true => Ok(kind),
            false => Err(self
                .wrong("CHAR and VARCHAR inside of a nested type are not supported; use STRING")),
        }
    }
}
