//! Nodes of a fragment as operators, one small function for each kind.

use std::{collections::BTreeSet, sync::Arc};

use arrow::{compute::SortOptions, datatypes::SchemaRef};
use coffer_expr::CompileContext;
use coffer_protocol::{
    plan::{
        Expr, Field, Fragment, Join, NamedExpr, Node, Project, Schema, Sort, WindowGroupLimit,
        node::Op, partitioning, sink,
    },
    tree::children,
};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{LexOrdering, PhysicalSortExpr, expressions::Column};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::{
    ExecutionPlan, filter::FilterExec, projection::ProjectionExec, sorts::sort::SortExec,
};

use crate::{
    Decryptor, NodeMetrics, Unsupported, aggregate, columns,
    decrypt::DecryptExec,
    drawn::DrawnExec,
    expand::ExpandExec,
    expressions::Expressions,
    first_error,
    generate::GenerateExec,
    input::InputExec,
    join::{self, Side, Sides, Spec},
    limit::LimitExec,
    metrics,
    numbers::NumbersExec,
    order,
    paused::PausedExec,
    placed::PlacedExec,
    scan::ScanExec,
    schema::{same_types, schema_of},
    top_k::TopKExec,
    union::UnionExec,
    values::{self, ValuesExec},
    window,
};

/// The fragment version that [`build`] reads.
const VERSION: u32 = 1;

/// What a plan is built for.
pub struct BuildContext<'a> {
    /// How many partitions (tasks) the stage has.
    pub partitions: usize,
    /// Subquery values and the like, for expressions.
    pub expressions: &'a CompileContext,
    /// Who opens stored columns: in the client engine, for what runs at the client.
    pub decryptor: Option<Arc<dyn Decryptor>>,
}

/// One plan for all tasks that an engine runs of a fragment.
#[derive(Debug, Clone)]
pub struct Plan {
    root: Arc<dyn ExecutionPlan>,
    /// The operators of each node, the top one first.
    nodes: Vec<(u32, Vec<Arc<dyn ExecutionPlan>>)>,
}

impl Plan {
    /// The root operator.
    pub fn root(&self) -> &Arc<dyn ExecutionPlan> {
        &self.root
    }

    /// Schema of the rows that [`Self::execute`] yields; its types are those of the fragment's
    /// output.
    pub fn schema(&self) -> SchemaRef {
        self.root.schema()
    }

    /// Starts one partition. `context` carries the task's [`crate::TaskIo`].
    pub fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> datafusion_common::Result<SendableRecordBatchStream> {
        self.root.execute(partition, context)
    }

    /// What the operators of one partition counted so far. Runs of the same partition on the same
    /// plan add up.
    pub fn metrics(&self, partition: usize) -> Vec<NodeMetrics> {
        metrics::collect(&self.nodes, partition)
    }
}

/// Turns a fragment into a plan of `context.partitions` partitions, or says why not.
pub fn build(fragment: &Fragment, context: &BuildContext) -> Result<Plan, Unsupported> {
    if fragment.version != VERSION {
        return Err(Unsupported::Version {
            found: fragment.version,
            expected: VERSION,
        });
    }
    let root = fragment.root.as_ref().ok_or(Unsupported::Malformed {
        node: 0,
        what: "no root",
    })?;
    let mut builder = Builder {
        expressions: Expressions(context.expressions),
        decryptor: context.decryptor.clone(),
        nodes: vec![],
        in_broadcast: false,
    };
    let plan = builder.node(root, context.partitions)?;
    let output = fragment.output.as_ref().ok_or(Unsupported::Malformed {
        node: root.id,
        what: "no output schema",
    })?;
    same_types(root.id, &plan.schema(), &schema_of(output, root.id)?)?;
    let plan = if scatters(fragment) {
        in_fixed_order(root.id, plan)?
    } else {
        plan
    };
    Ok(Plan {
        root: plan,
        nodes: builder.nodes,
    })
}

/// Whether rows leave by their place in the stream rather than by their values.
fn scatters(fragment: &Fragment) -> bool {
    let Some(sink::Kind::Shuffle(partitioning)) =
        fragment.sink.as_ref().and_then(|sink| sink.kind.as_ref())
    else {
        return false;
    };
    matches!(&partitioning.kind, Some(partitioning::Kind::RoundRobin(robin))
        if robin.partitions > 1)
}

/// Rows sorted by all their columns: a repeated task must send every row where the first one sent
/// it, also if its inputs arrive in another order.
fn in_fixed_order(
    node: u32,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>, Unsupported> {
    let schema = plan.schema();
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        // Not the canonical form of keys: -0.0 and 0.0 are different rows.
        let expr = coffer_expr::exact_key(column, &schema)
            .map_err(|source| Unsupported::Expression { node, source })?;
        Ok(PhysicalSortExpr {
            expr,
            options: SortOptions::default(),
        })
    });
    match LexOrdering::new(columns.collect::<Result<Vec<_>, Unsupported>>()?) {
        Some(ordering) => Ok(Arc::new(
            SortExec::new(ordering, plan).with_preserve_partitioning(true),
        )),
        // Rows without columns are all the same.
        None if schema.fields().is_empty() => Ok(plan),
        None => Err(Unsupported::Malformed {
            node,
            what: "an order of no columns",
        }),
    }
}

type NamedExprs = Vec<(Arc<dyn PhysicalExpr>, String)>;

struct Builder<'a> {
    expressions: Expressions<'a>,
    decryptor: Option<Arc<dyn Decryptor>>,
    nodes: Vec<(u32, Vec<Arc<dyn ExecutionPlan>>)>,
    /// Whether the nodes being built are the broadcast side of a join: one partition, the same in
    /// every task.
    in_broadcast: bool,
}

impl Builder<'_> {
    fn node(
        &mut self,
        node: &Node,
        partitions: usize,
    ) -> Result<Arc<dyn ExecutionPlan>, Unsupported> {
        let id = node.id;
        let malformed = |what| Unsupported::Malformed { node: id, what };
        let operators = |source| Unsupported::Operators { node: id, source };
        let op = node
            .op
            .as_ref()
            .ok_or(malformed("a node without operator"))?;
        match op {
            Op::Input(input) if input.broadcast != self.in_broadcast => {
                return Err(malformed(
                    "a broadcast is read as the build side of a join, and nothing else is",
                ));
            }
            Op::Scan(_) | Op::Values(_) | Op::Numbers(_) | Op::Join(_) | Op::Union(_)
                if self.in_broadcast =>
            {
                return Err(malformed(
                    "a broadcast side with other rows than the broadcast's",
                ));
            }
            _ => {}
        }
        let made: Vec<Arc<dyn ExecutionPlan>> = match op {
            Op::Scan(scan) => {
                let schema = schema_of(
                    scan.schema
                        .as_ref()
                        .ok_or(malformed("a scan without schema"))?,
                    id,
                )?;
                let pushed = scan
                    .pushed
                    .iter()
                    .map(|conjunct| {
                        if coffer_expr::is_fallible(conjunct) {
                            return Err(malformed("a pushed conjunct that can fail"));
                        }
                        self.expressions.boolean(id, conjunct, &schema)
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                vec![Arc::new(ScanExec::new(
                    scan.scan_id,
                    schema,
                    pushed,
                    partitions,
                ))]
            }
            Op::Input(input) => {
                let schema = schema_of(
                    input
                        .schema
                        .as_ref()
                        .ok_or(malformed("an input without schema"))?,
                    id,
                )?;
                if input.broadcast && !input.merge.is_empty() {
                    return Err(malformed("a broadcast has no order"));
                }
                let merge = if input.merge.is_empty() {
                    None
                } else {
                    Some(order::ordering(
                        id,
                        &input.merge,
                        &schema,
                        &self.expressions,
                    )?)
                };
                vec![Arc::new(InputExec::new(
                    input.input_id,
                    schema,
                    merge,
                    partitions,
                ))]
            }
            Op::Values(values) => {
                let batch = values::batch(id, values)?;
                vec![Arc::new(ValuesExec::new(batch, partitions))]
            }
            Op::Filter(filter) => {
                let child = self.child(id, filter.child.as_deref(), partitions)?;
                let condition = filter
                    .condition
                    .as_ref()
                    .ok_or(malformed("a filter without condition"))?;
                let built = self.expressions.boolean(id, condition, &child.schema())?;
                let condition = first_error::one_in_rows(built, condition);
                vec![Arc::new(
                    FilterExec::try_new(condition, child).map_err(operators)?,
                )]
            }
            Op::Project(project) => {
                let (child, exprs) = self.projected(id, project, partitions)?;
                let (exprs, names): (Vec<_>, Vec<_>) = exprs.into_iter().unzip();
                let said = project.exprs.iter().map(|named| named.expr.as_ref());
                let exprs = first_error::in_rows(exprs, said);
                let exprs: NamedExprs = exprs.into_iter().zip(names).collect();
                vec![Arc::new(
                    ProjectionExec::try_new(exprs, child).map_err(operators)?,
                )]
            }
            Op::Aggregate(node) => {
                let child = self.child(id, node.child.as_deref(), partitions)?;
                aggregate::plan(id, node, child, &self.expressions)?
            }
            Op::Window(node) => {
                let child = self.child(id, node.child.as_deref(), partitions)?;
                window::plan(id, node, child, &self.expressions)?
            }
            Op::WindowGroupLimit(node) => {
                let child = self.limited(id, node, partitions)?;
                window::group_limit(id, node, child, &self.expressions)?
            }
            Op::Sort(sort) => {
                let child = self.child(id, sort.child.as_deref(), partitions)?;
                vec![self.sort(id, sort, child)?]
            }
            Op::Limit(limit) => {
                let child = self.child(id, limit.child.as_deref(), partitions)?;
                let rows = |rows: u64| {
                    usize::try_from(rows).map_err(|_| malformed("a limit beyond memory"))
                };
                let fetch = limit.fetch.map(rows).transpose()?;
                vec![Arc::new(LimitExec::new(child, rows(limit.skip)?, fetch))]
            }
            Op::Numbers(numbers) => vec![Arc::new(NumbersExec::new(id, numbers, partitions)?)],
            Op::Drawn(drawn) => {
                let child = self.child(id, drawn.child.as_deref(), partitions)?;
                vec![Arc::new(DrawnExec::new(id, drawn, child)?)]
            }
            Op::Placed(placed) => {
                let child = self.child(id, placed.child.as_deref(), partitions)?;
                let made = PlacedExec::new(id, placed, child, &self.expressions)?;
                vec![Arc::new(made)]
            }
            Op::Generate(generate) => {
                let child = self.child(id, generate.child.as_deref(), partitions)?;
                let made = GenerateExec::new(id, generate, child, &self.expressions)?;
                vec![Arc::new(made)]
            }
            Op::Expand(expand) => {
                let child = self.child(id, expand.child.as_deref(), partitions)?;
                let schema = schema_of(
                    expand
                        .schema
                        .as_ref()
                        .ok_or(malformed("an expand without schema"))?,
                    id,
                )?;
                let mut projections = Vec::with_capacity(expand.projections.len());
                for projection in &expand.projections {
                    projections.push(self.typed(
                        id,
                        &projection.exprs,
                        &child.schema(),
                        &schema,
                    )?);
                }
                vec![Arc::new(ExpandExec::new(child, projections, schema))]
            }
            Op::Union(union) => {
                let schema = schema_of(
                    union
                        .schema
                        .as_ref()
                        .ok_or(malformed("a union without schema"))?,
                    id,
                )?;
                let stacked = !union.children_partitions.is_empty();
                if stacked && union.children_partitions.len() != union.children.len() {
                    return Err(malformed(
                        "a union with other children than partition counts",
                    ));
                }
                let mut children = Vec::with_capacity(union.children.len());
                for (index, child) in union.children.iter().enumerate() {
                    let own = match union.children_partitions.get(index) {
                        Some(own) => {
                            usize::try_from(*own).map_err(|_| malformed("partition count"))?
                        }
                        None => partitions,
                    };
                    let child = self.node(child, own)?;
                    same_types(id, &child.schema(), &schema)?;
                    children.push(child);
                }
                let plan = UnionExec::new(children, schema, stacked);
                if plan.properties().output_partitioning().partition_count() != partitions {
                    return Err(malformed(
                        "a union of another number of partitions than its stage",
                    ));
                }
                vec![Arc::new(plan)]
            }
            Op::Join(join) => self.join(id, join, None, partitions)?,
            Op::Decrypt(decrypt) => {
                let decryptor = self.decryptor.clone();
                let decryptor =
                    decryptor.ok_or(malformed("a column to open in an engine that opens none"))?;
                let child = self.child(id, decrypt.child.as_deref(), partitions)?;
                let fields = decrypt.columns.iter().map(|column| Field {
                    name: column.name.clone(),
                    r#type: column.r#type.clone(),
                    nullable: column.nullable,
                    ..Field::default()
                });
                let schema = Schema {
                    fields: fields.collect(),
                };
                let schema = schema_of(&schema, id)?;
                let columns = decrypt.columns.clone().into();
                vec![Arc::new(DecryptExec::try_new(
                    id, child, columns, decryptor, schema,
                )?)]
            }
        };
        self.keep(id, made)
    }

    /// Enters a node's operators, and gives the top one, with pauses.
    fn keep(
        &mut self,
        id: u32,
        made: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>, Unsupported> {
        let top = made.first().map(Arc::clone).ok_or(Unsupported::Malformed {
            node: id,
            what: "a node without operator",
        })?;
        self.nodes.push((id, made));
        Ok(Arc::new(PausedExec::new(top)))
    }

    /// The child of a projection, and its expressions over it. A join makes only the columns that
    /// are read: each costs a copy of every row that comes out.
    fn projected(
        &mut self,
        id: u32,
        project: &Project,
        partitions: usize,
    ) -> Result<(Arc<dyn ExecutionPlan>, NamedExprs), Unsupported> {
        let Some((child, Op::Join(join))) = project
            .child
            .as_deref()
            .and_then(|child| Some((child, child.op.as_ref()?)))
        else {
            let child = self.child(id, project.child.as_deref(), partitions)?;
            let exprs = self.named(id, &project.exprs, &child.schema())?;
            return Ok((child, exprs));
        };
        let mut needed = BTreeSet::new();
        for expr in project.exprs.iter().filter_map(|named| named.expr.as_ref()) {
            columns::gather(expr, &mut needed);
        }
        if needed.is_empty() {
            // Rows without columns are only counted; one column carries the count.
            needed.insert(0);
        }
        let needed: Vec<u32> = needed.into_iter().collect();
        let made = self.join(child.id, join, Some(&needed), partitions)?;
        let plan = self.keep(child.id, made)?;
        let narrowed: Vec<NamedExpr> = project
            .exprs
            .iter()
            .map(|named| NamedExpr {
                name: named.name.clone(),
                expr: named
                    .expr
                    .as_ref()
                    .map(|expr| columns::narrowed(expr, &needed)),
            })
            .collect();
        let exprs = self.named(id, &narrowed, &plan.schema())?;
        Ok((plan, exprs))
    }

    /// The operators of a join; with `needed`, of these columns of its output only.
    fn join(
        &mut self,
        id: u32,
        join: &Join,
        needed: Option<&[u32]>,
        partitions: usize,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>, Unsupported> {
        if self.in_broadcast {
            return Err(Unsupported::Malformed {
                node: id,
                what: "a broadcast side with other rows than the broadcast's",
            });
        }
        let spec = Spec::read(id, join)?;
        if spec.is_paired_loop()
            && partitions > 1
            && [&join.left, &join.right]
                .iter()
                .any(|side| side.as_deref().is_some_and(has_values))
        {
            return Err(Unsupported::Operator {
                node: id,
                operator: "join",
                reason: "local rows in a Cartesian product are in one of its cells only".to_owned(),
            });
        }
        let mut side = |side: Side, node: Option<&Node>| {
            self.in_broadcast = spec.broadcast_side() == Some(side);
            let partitions = if self.in_broadcast { 1 } else { partitions };
            let plan = self.child(id, node, partitions);
            self.in_broadcast = false;
            plan
        };
        let sides = Sides {
            left: side(Side::Left, join.left.as_deref())?,
            right: side(Side::Right, join.right.as_deref())?,
        };
        join::plan(&spec, sides, needed, &self.expressions)
    }

    fn child(
        &mut self,
        node: u32,
        child: Option<&Node>,
        partitions: usize,
    ) -> Result<Arc<dyn ExecutionPlan>, Unsupported> {
        self.node(
            child.ok_or(Unsupported::Malformed {
                node,
                what: "a node without child",
            })?,
            partitions,
        )
    }

    fn named(
        &self,
        node: u32,
        exprs: &[NamedExpr],
        schema: &SchemaRef,
    ) -> Result<NamedExprs, Unsupported> {
        exprs
            .iter()
            .map(|named| {
                let expr = named.expr.as_ref().ok_or(Unsupported::Malformed {
                    node,
                    what: "a missing expression",
                })?;
                Ok((
                    self.expressions.compile(node, expr, schema)?,
                    named.name.clone(),
                ))
            })
            .collect()
    }

    /// Expressions that must have the types of `declared`.
    fn typed(
        &self,
        node: u32,
        exprs: &[Expr],
        schema: &SchemaRef,
        declared: &SchemaRef,
    ) -> Result<Vec<Arc<dyn PhysicalExpr>>, Unsupported> {
        if exprs.len() != declared.fields().len() {
            return Err(Unsupported::Malformed {
                node,
                what: "a projection of another width than its schema",
            });
        }
        let mut compiled = Vec::with_capacity(exprs.len());
        for (column, (expr, field)) in exprs.iter().zip(declared.fields()).enumerate() {
            let expr = self.expressions.compile(node, expr, schema)?;
            let found = expr
                .data_type(schema)
                .map_err(|source| Unsupported::Operators { node, source })?;
            if &found != field.data_type() {
                return Err(Unsupported::Type {
                    node,
                    column,
                    found: found.to_string(),
                    declared: field.data_type().to_string(),
                });
            }
            compiled.push(expr);
        }
        Ok(compiled)
    }

    /// The child of a limit of groups. Where that is a sort, few rows need to be sorted.
    fn limited(
        &mut self,
        id: u32,
        limit: &WindowGroupLimit,
        partitions: usize,
    ) -> Result<Arc<dyn ExecutionPlan>, Unsupported> {
        let Some((child, Op::Sort(sort))) = limit
            .child
            .as_deref()
            .and_then(|child| Some((child, child.op.as_ref()?)))
            .filter(|(_, op)| matches!(op, Op::Sort(sort) if sort.fetch == 0))
        else {
            return self.child(id, limit.child.as_deref(), partitions);
        };
        let rows = self.child(child.id, sort.child.as_deref(), partitions)?;
        let leaders = window::leaders(id, limit, rows, &self.expressions)?;
        let sorted = self.sort(child.id, sort, leaders)?;
        self.keep(child.id, vec![sorted])
    }

    fn sort(
        &self,
        node: u32,
        sort: &Sort,
        child: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>, Unsupported> {
        let ordering = order::ordering(node, &sort.keys, &child.schema(), &self.expressions)?;
        if sort.fetch == 0 {
            return Ok(Arc::new(
                SortExec::new(ordering, child).with_preserve_partitioning(true),
            ));
        }
        let fetch = usize::try_from(sort.fetch).map_err(|_| Unsupported::Malformed {
            node,
            what: "a limit beyond memory",
        })?;
        Ok(Arc::new(TopKExec::new(ordering, child, fetch)))
    }
}

/// Whether rows that came with the fragment are below a node, or in it.
fn has_values(node: &Node) -> bool {
    matches!(node.op, Some(Op::Values(_) | Op::Numbers(_)))
        || children(node).into_iter().any(has_values)
}
