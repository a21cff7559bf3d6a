//! Which columns expressions of the IR read, and the same expressions over fewer columns.

use std::collections::BTreeSet;

use coffer_protocol::plan::{Expr, expr::Kind};

/// Adds the positions that an expression reads.
pub(crate) fn gather(expr: &Expr, into: &mut BTreeSet<u32>) {
    if let Some(Kind::Column(position)) = &expr.kind {
        into.insert(*position);
    }
    for child in children(expr) {
        gather(child, into);
    }
}

/// The expression over a schema that has only `kept` of the columns, in that order. A column that
/// was not kept becomes one that no schema has, which compiling refuses.
pub(crate) fn narrowed(expr: &Expr, kept: &[u32]) -> Expr {
    let mut expr = expr.clone();
    narrow(&mut expr, kept);
    expr
}

fn narrow(expr: &mut Expr, kept: &[u32]) {
    let Some(kind) = &mut expr.kind else {
        return;
    };
    match kind {
        Kind::Literal(_) | Kind::Subquery(_) | Kind::Variable(_) => {}
        Kind::Column(position) => {
            let index = kept.iter().position(|column| column == position);
            *position = index
                .and_then(|index| u32::try_from(index).ok())
                .unwrap_or(u32::MAX);
        }
        Kind::Call(call) => call.args.iter_mut().for_each(|arg| narrow(arg, kept)),
        Kind::Cast(cast) => cast.child.iter_mut().for_each(|child| narrow(child, kept)),
        Kind::CaseWhen(case) => {
            for branch in &mut case.branches {
                branch.when.iter_mut().for_each(|when| narrow(when, kept));
                branch.then.iter_mut().for_each(|then| narrow(then, kept));
            }
            case.otherwise
                .iter_mut()
                .for_each(|otherwise| narrow(otherwise, kept));
        }
        Kind::InList(list) => {
            list.value.iter_mut().for_each(|value| narrow(value, kept));
            list.list.iter_mut().for_each(|item| narrow(item, kept));
        }
        Kind::Lambda(lambda) => lambda.body.iter_mut().for_each(|body| narrow(body, kept)),
    }
}

fn children(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        None | Some(Kind::Literal(_) | Kind::Subquery(_) | Kind::Column(_) | Kind::Variable(_)) => {
            vec![]
        }
        Some(Kind::Call(call)) => call.args.iter().collect(),
        Some(Kind::Cast(cast)) => cast.child.as_deref().into_iter().collect(),
        Some(Kind::CaseWhen(case)) => {
            let branches = case
                .branches
                .iter()
                .flat_map(|branch| branch.when.iter().chain(&branch.then));
            branches.chain(case.otherwise.as_deref()).collect()
        }
        Some(Kind::InList(list)) => list
            .value
            .as_deref()
            .into_iter()
            .chain(&list.list)
            .collect(),
        Some(Kind::Lambda(lambda)) => lambda.body.as_deref().into_iter().collect(),
    }
}
