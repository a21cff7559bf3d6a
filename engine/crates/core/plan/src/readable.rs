//! Fragments as text: one line a node, children indented, expressions as they will be evaluated.
//!
//! The text holds literals of the query. It is for EXPLAIN at the client site and never leaves an
//! engine otherwise.

mod windows;

use std::fmt::{self, Write};

use coffer_expr::types::Interval;
use coffer_protocol::{
    plan::{
        AggCall, AggMode, Aggregate, DataType, EvalMode, Expr, Fragment, Generate, Join, JoinType,
        Literal, NamedExpr, Node, Partitioning, Schema, Sink, SortKey, TypeId, decrypt, expr::Kind,
        generate, join::Strategy, literal::Value, node::Op, partitioning, sink,
    },
    tree::children,
};

/// The fragment as indented text, for EXPLAIN.
pub fn readable(fragment: &Fragment) -> String {
    let mut text = String::new();
    let written = Writer { text: &mut text }.fragment(fragment);
    if written.is_err() {
        // Writing to a string does not fail.
        text.push_str("…\n");
    }
    text
}

struct Writer<'a> {
    text: &'a mut String,
}

impl Writer<'_> {
    fn fragment(&mut self, fragment: &Fragment) -> fmt::Result {
        writeln!(self.text, "{}", Sunk(fragment.sink.as_ref()))?;
        match &fragment.root {
            Some(root) => self.node(root, 1),
            None => writeln!(self.text, "  (no root)"),
        }
    }

    fn node(&mut self, node: &Node, depth: usize) -> fmt::Result {
        for _ in 0..depth {
            self.text.push_str("  ");
        }
        write!(self.text, "({}) ", node.id)?;
        let Some(op) = &node.op else {
            return writeln!(self.text, "(no operator)");
        };
        self.line(op)?;
        self.text.push('\n');
        children(node)
            .into_iter()
            .try_for_each(|child| self.node(child, depth + 1))
    }

    fn line(&mut self, op: &Op) -> fmt::Result {
        let out = &mut *self.text;
        match op {
            Op::Scan(scan) => {
                write!(
                    out,
                    "Scan {} [{}]",
                    scan.scan_id,
                    Columns(scan.schema.as_ref())
                )?;
                when(
                    out,
                    !scan.pushed.is_empty(),
                    format_args!(", pushed [{}]", List(&scan.pushed, " and ")),
                )
            }
            Op::Input(input) => {
                let kind = if input.broadcast {
                    "Broadcast input"
                } else {
                    "Input"
                };
                write!(
                    out,
                    "{kind} {} [{}]",
                    input.input_id,
                    Columns(input.schema.as_ref())
                )?;
                when(
                    out,
                    !input.merge.is_empty(),
                    format_args!(", merged by [{}]", List(&input.merge, ", ")),
                )
            }
            Op::Values(values) => {
                write!(
                    out,
                    "Values [{}], {} rows",
                    Columns(values.schema.as_ref()),
                    values.rows.len()
                )
            }
            Op::Filter(filter) => write!(out, "Filter {}", Maybe(filter.condition.as_ref())),
            Op::Project(project) => write!(out, "Project [{}]", List(&project.exprs, ", ")),
            Op::Aggregate(aggregate) => Self::aggregate(out, aggregate),
            Op::Sort(sort) => {
                write!(out, "Sort [{}]", List(&sort.keys, ", "))?;
                when(out, sort.fetch > 0, format_args!(", first {}", sort.fetch))
            }
            Op::Limit(limit) => {
                out.push_str("Limit");
                when(out, limit.skip > 0, format_args!(" skip {}", limit.skip))?;
                limit
                    .fetch
                    .map_or(Ok(()), |fetch| write!(out, " fetch {fetch}"))
            }
            Op::Expand(expand) => {
                write!(out, "Expand [{}]", Columns(expand.schema.as_ref()))?;
                expand
                    .projections
                    .iter()
                    .try_for_each(|p| write!(out, " [{}]", List(&p.exprs, ", ")))
            }
            Op::Numbers(numbers) => write!(
                out,
                "Numbers [{}] {} to {} by {}",
                Columns(numbers.schema.as_ref()),
                numbers.start,
                numbers.end,
                numbers.step
            ),
            Op::Drawn(drawn) => {
                write!(out, "Sample {} to {}", drawn.lower, drawn.upper)?;
                when(out, drawn.replacement, format_args!(" with replacement"))
            }
            Op::Placed(placed) => {
                let columns = placed.columns.iter();
                let kinds: Vec<&str> = columns.map(|column| column.kind().as_str_name()).collect();
                write!(out, "Place [{}]", kinds.join(", "))
            }
            Op::Generate(generate) => Self::generate(out, generate),
            Op::Union(union) => {
                out.push_str("Union");
                let stacked = !union.children_partitions.is_empty();
                when(
                    out,
                    stacked,
                    format_args!(" stacked {:?}", union.children_partitions),
                )
            }
            Op::Join(join) => Self::join(out, join),
            Op::Window(window) => windows::window(out, window),
            Op::WindowGroupLimit(limit) => windows::group_limit(out, limit),
            Op::Decrypt(decrypt) => {
                let opened = decrypt
                    .columns
                    .iter()
                    .filter(|column| column.kind() != decrypt::Kind::AsIs);
                let names: Vec<&str> = opened.map(|column| column.name.as_str()).collect();
                write!(out, "Open [{}]", names.join(", "))
            }
        }
    }

    fn generate(out: &mut String, generate: &Generate) -> fmt::Result {
        use generate::Generator::{Copies, Explode, Stack};
        write!(out, "Generate {:?} and ", generate.kept)?;
        match &generate.generator {
            None => out.push('?'),
            Some(Explode(explode)) => {
                let input = Maybe(explode.input.as_ref());
                let name = if explode.fields { "inline" } else { "explode" };
                write!(out, "{name} {input}")?;
                when(out, explode.position, format_args!(" with position"))?;
            }
            Some(Stack(stack)) => {
                write!(out, "stack {} [{}]", stack.rows, List(&stack.exprs, ", "))?
            }
            Some(Copies(copies)) => {
                let count = Maybe(copies.count.as_ref());
                write!(out, "{count} copies of [{}]", List(&copies.exprs, ", "))?;
            }
        }
        when(out, generate.outer, format_args!(", outer"))
    }

    fn aggregate(out: &mut String, aggregate: &Aggregate) -> fmt::Result {
        out.push_str("Aggregate");
        when(
            out,
            !aggregate.grouping.is_empty(),
            format_args!(" by [{}]", List(&aggregate.grouping, ", ")),
        )?;
        write!(out, " [{}]", List(&aggregate.calls, ", "))
    }

    fn join(out: &mut String, join: &Join) -> fmt::Result {
        let strategy = Strategy::try_from(join.strategy);
        let way = match strategy {
            Ok(Strategy::Hash) => "Hash join",
            Ok(Strategy::SortMerge) => "Merge join",
            Ok(Strategy::NestedLoop) => "Nested loop join",
            Err(_) => "Unknown join",
        };
        let kind = JoinType::try_from(join.r#type).map_or("UNKNOWN", |kind| kind.as_str_name());
        write!(out, "{way} {}", kind.to_ascii_lowercase())?;
        let (left, right) = (List(&join.left_keys, ", "), List(&join.right_keys, ", "));
        let keyed = !join.left_keys.is_empty() || !join.right_keys.is_empty();
        when(out, keyed, format_args!(" [{left}] = [{right}]"))?;
        when(
            out,
            join.condition.is_some(),
            format_args!(" if {}", Maybe(join.condition.as_ref())),
        )?;
        if strategy != Ok(Strategy::SortMerge) {
            let side = if join.build_left { "left" } else { "right" };
            let whole = if join.broadcast { ", broadcast" } else { "" };
            write!(out, ", built from the {side}{whole}")?;
        }
        when(out, join.null_aware, format_args!(", null aware"))
    }
}

fn when(out: &mut String, condition: bool, text: fmt::Arguments) -> fmt::Result {
    if condition {
        out.write_fmt(text)
    } else {
        Ok(())
    }
}

/// What is written in a list.
trait Readable {
    fn read(&self, f: &mut fmt::Formatter) -> fmt::Result;
}

struct List<'a, T>(&'a [T], &'static str);

impl<T: Readable> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(self.1)?;
            }
            item.read(f)?;
        }
        Ok(())
    }
}

struct Maybe<'a, T>(Option<&'a T>);

impl<T: Readable> fmt::Display for Maybe<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            Some(item) => item.read(f),
            None => f.write_str("?"),
        }
    }
}

struct Columns<'a>(Option<&'a Schema>);

impl fmt::Display for Columns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (index, field) in self.0.iter().flat_map(|schema| &schema.fields).enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(
                f,
                "{separator}{} {}",
                field.name,
                Maybe(field.r#type.as_ref())
            )?;
        }
        Ok(())
    }
}

struct Sunk<'a>(Option<&'a Sink>);

impl fmt::Display for Sunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0.and_then(|sink| sink.kind.as_ref()) {
            Some(sink::Kind::Shuffle(partitioning)) => Maybe(Some(partitioning)).fmt(f),
            Some(sink::Kind::Result(_)) => f.write_str("Result"),
            Some(sink::Kind::Sample(sample)) => write!(
                f,
                "Sample {} by [{}]",
                sample.size,
                List(&sample.keys, ", ")
            ),
            Some(sink::Kind::Broadcast(_)) => f.write_str("Broadcast"),
            Some(sink::Kind::Write(write)) => {
                f.write_str("Write")?;
                match write.partition_columns.as_slice() {
                    [] => Ok(()),
                    columns => write!(f, " partitioned by columns {columns:?}"),
                }
            }
            None => f.write_str("(no sink)"),
        }
    }
}

impl Readable for Partitioning {
    fn read(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.kind {
            Some(partitioning::Kind::Hash(hash)) => {
                write!(
                    f,
                    "Shuffle to {} by hash of [{}]",
                    hash.partitions,
                    List(&hash.exprs, ", ")
                )
            }
            Some(partitioning::Kind::Single(_)) => f.write_str("Shuffle to 1"),
            Some(partitioning::Kind::RoundRobin(robin)) => {
                write!(f, "Shuffle to {} in turn", robin.partitions)
            }
            Some(partitioning::Kind::Range(range)) => {
                let keys = List(&range.keys, ", ");
                write!(
                    f,
                    "Shuffle to {} by range of [{keys}], bounds {}",
                    range.partitions, range.bounds_id
                )
            }
            None => f.write_str("(no partitioning)"),
        }
    }
}

impl Readable for NamedExpr {
    fn read(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} as {}", Maybe(self.expr.as_ref()), self.name)
    }
}

impl Readable for SortKey {
    fn read(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let direction = if self.descending { "desc" } else { "asc" };
        let nulls = if self.nulls_first {
            "nulls first"
        } else {
            "nulls last"
        };
        write!(f, "{} {direction} {nulls}", Maybe(self.expr.as_ref()))
    }
}

impl Readable for AggCall {
    fn read(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mode = match AggMode::try_from(self.mode) {
            Ok(AggMode::Partial) => "partial ",
            Ok(AggMode::PartialMerge) => "merged ",
            Ok(AggMode::Final) => "final ",
            Ok(AggMode::Complete) => "",
            Err(_) => "unknown ",
        };
        write!(f, "{mode}{}({})", self.name, List(&self.args, ", "))?;
        if self.ignore_nulls {
            f.write_str(" ignore nulls")?;
        }
        match &self.filter {
            Some(filter) => write!(f, " filter {}", Maybe(Some(filter))),
            None => Ok(()),
        }
    }
}

impl Readable for DataType {
    fn read(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match TypeId::try_from(self.id) {
            Ok(TypeId::Decimal) => write!(f, "decimal({},{})", self.precision, self.scale),
            Ok(id @ (TypeId::Array | TypeId::Struct | TypeId::Map)) => {
                write!(f, "{}<", id.as_str_name().to_ascii_lowercase())?;
                for (i, child) in self.children.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    if id == TypeId::Struct {
                        write!(f, "{:?}: ", child.name)?;
                    }
                    write!(f, "{}", Maybe(child.r#type.as_ref()))?;
                }
                f.write_str(">")
            }
            Ok(TypeId::Time) => write!(f, "time({})", self.precision),
            Ok(id) => match Interval::of(self) {
                Some(of) => write!(f, "interval {}", of.fields().to_ascii_lowercase()),
                None => f.write_str(&id.as_str_name().to_ascii_lowercase()),
            },
            Err(_) => f.write_str("unknown"),
        }
    }
}

impl Readable for Expr {
    fn read(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.kind {
            None => f.write_str("?"),
            Some(Kind::Literal(literal)) => literal.read(f),
            Some(Kind::Column(position)) => write!(f, "#{position}"),
            Some(Kind::Call(call)) => {
                let mode = match EvalMode::try_from(call.mode) {
                    Ok(EvalMode::Try) => "try_",
                    _ => "",
                };
                write!(f, "{mode}{}({})", call.name, List(&call.args, ", "))
            }
            Some(Kind::Cast(cast)) => {
                write!(
                    f,
                    "cast({} as {})",
                    Maybe(cast.child.as_deref()),
                    Maybe(cast.to.as_ref())
                )
            }
            Some(Kind::CaseWhen(case)) => {
                f.write_str("case")?;
                for branch in &case.branches {
                    write!(
                        f,
                        " when {} then {}",
                        Maybe(branch.when.as_ref()),
                        Maybe(branch.then.as_ref())
                    )?;
                }
                if let Some(otherwise) = &case.otherwise {
                    write!(f, " else {}", Maybe(Some(otherwise.as_ref())))?;
                }
                f.write_str(" end")
            }
            Some(Kind::InList(list)) => write!(
                f,
                "{} in ({})",
                Maybe(list.value.as_deref()),
                List(&list.list, ", ")
            ),
            Some(Kind::Subquery(value)) => write!(f, "subquery {}", value.id),
            Some(Kind::Variable(index)) => write!(f, "${index}"),
            Some(Kind::Lambda(lambda)) => write!(
                f,
                "lambda({}) -> {}",
                lambda.parameters.len(),
                Maybe(lambda.body.as_deref())
            ),
        }
    }
}

impl Readable for Literal {
    fn read(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.value {
            None => f.write_str("null"),
            Some(Value::Bool(value)) => write!(f, "{value}"),
            Some(Value::Int(value)) => match self.r#type.as_ref().map(|t| TypeId::try_from(t.id)) {
                Some(Ok(
                    TypeId::Date
                    | TypeId::Timestamp
                    | TypeId::TimestampNtz
                    | TypeId::Time
                    | TypeId::YearMonthInterval
                    | TypeId::DayTimeInterval,
                )) => write!(f, "{} {value}", Maybe(self.r#type.as_ref())),
                _ => write!(f, "{value}"),
            },
            Some(Value::Float(value)) => write!(f, "{value:?}"),
            Some(Value::Double(value)) => write!(f, "{value:?}"),
            Some(Value::Decimal(unscaled)) => match &self.r#type {
                Some(data_type) => write!(f, "{}", Decimal(unscaled, data_type.scale)),
                None => f.write_str("?"),
            },
            Some(Value::String(value)) => write!(f, "{value:?}"),
            Some(Value::Binary(value)) => {
                f.write_str("x'")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("'")
            }
            Some(Value::Nested(nested)) => {
                f.write_str("[")?;
                for (i, value) in nested.values.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    value.read(f)?;
                }
                f.write_str("]")
            }
        }
    }
}

/// An unscaled value, big endian, and its scale.
struct Decimal<'a>(&'a [u8], u32);

impl fmt::Display for Decimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let negative = self.0.first().is_some_and(|byte| byte & 0x80 != 0);
        let start: i128 = if negative { -1 } else { 0 };
        let value = self
            .0
            .iter()
            .fold(start, |value, byte| (value << 8) | i128::from(*byte));
        let Some(unit) = 10u128.checked_pow(self.1).filter(|_| self.0.len() <= 16) else {
            return f.write_str("?");
        };
        let sign = if value < 0 { "-" } else { "" };
        let magnitude = value.unsigned_abs();
        if self.1 == 0 {
            return write!(f, "{sign}{magnitude}");
        }
        let digits = usize::try_from(self.1).unwrap_or_default();
        write!(
            f,
            "{sign}{}.{:0digits$}",
            magnitude / unit,
            magnitude % unit
        )
    }
}
