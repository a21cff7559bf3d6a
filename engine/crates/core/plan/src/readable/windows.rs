//! Window operators as text.

use std::fmt::{self, Write};

use coffer_protocol::plan::{
    Window, WindowGroupLimit,
    window::{Bound, Call, Frame, Rank, bound::Kind, call::Function},
};

use super::{List, Maybe, Readable, when};

pub(super) fn window(out: &mut String, window: &Window) -> fmt::Result {
    write!(out, "Window [{}]", List(&window.calls, ", "))?;
    let (partition, order) = (&window.partition, &window.order);
    when(
        out,
        !partition.is_empty(),
        format_args!(" partitioned by [{}]", List(partition, ", ")),
    )?;
    when(
        out,
        !order.is_empty(),
        format_args!(" ordered by [{}]", List(order, ", ")),
    )
}

pub(super) fn group_limit(out: &mut String, limit: &WindowGroupLimit) -> fmt::Result {
    write!(
        out,
        "Window group limit {} <= {} partitioned by [{}] ordered by [{}]",
        name(limit.rank),
        limit.limit,
        List(&limit.partition, ", "),
        List(&limit.order, ", ")
    )
}

fn name(rank: i32) -> String {
    Rank::try_from(rank).map_or("unknown".to_owned(), |rank| {
        rank.as_str_name().to_ascii_lowercase()
    })
}

impl Readable for Call {
    fn read(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let nulls = |ignored| if ignored { " ignore nulls" } else { "" };
        match &self.function {
            Some(Function::Aggregate(call)) => call.read(f)?,
            Some(Function::Ranking(ranking)) if ranking.rank() == Rank::Ntile => {
                write!(f, "ntile({})", ranking.buckets)?;
            }
            Some(Function::Ranking(ranking)) => write!(f, "{}()", name(ranking.rank))?,
            Some(Function::Shift(shift)) => {
                let input = Maybe(shift.input.as_ref());
                let (name, rows) = match shift.offset < 0 {
                    true => ("lag", i64::from(shift.offset).unsigned_abs()),
                    false => ("lead", i64::from(shift.offset).unsigned_abs()),
                };
                write!(f, "{name}({input}, {rows}")?;
                if shift.otherwise.is_some() {
                    write!(f, ", {}", Maybe(shift.otherwise.as_ref()))?;
                }
                write!(f, "){}", nulls(shift.ignore_nulls))?;
            }
            Some(Function::NthValue(value)) => write!(
                f,
                "nth_value({}, {}){}",
                Maybe(value.input.as_ref()),
                value.nth,
                nulls(value.ignore_nulls)
            )?,
            None => f.write_str("?")?,
        }
        match &self.frame {
            Some(frame) => write!(f, " over {} as {}", Shown(frame), self.name),
            None => write!(f, " as {}", self.name),
        }
    }
}

struct Shown<'a>(&'a Frame);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        bound(f, self.0.lower.as_ref(), "first")?;
        f.write_str(" to ")?;
        bound(f, self.0.upper.as_ref(), "last")
    }
}

fn bound(f: &mut fmt::Formatter, bound: Option<&Bound>, end: &str) -> fmt::Result {
    match bound.and_then(|bound| bound.kind.as_ref()) {
        None => f.write_str("?"),
        Some(Kind::Unbounded(_)) => write!(f, "{end} row"),
        Some(Kind::Peers(_)) => write!(f, "{end} peer"),
        Some(Kind::Rows(rows)) => write!(f, "row {rows:+}"),
        Some(Kind::Value(value)) => write!(f, "key {}", Maybe(Some(value))),
    }
}
