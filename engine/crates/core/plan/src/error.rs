//! Why a fragment is refused.

use datafusion_common::DataFusionError;

/// A fragment that the engine cannot run exactly as it says. Nothing of a refused fragment is
/// executed.
#[derive(Debug, thiserror::Error)]
pub enum Unsupported {
    /// A field that the contract demands is missing or out of range.
    #[error("malformed fragment: node {node}: {what}")]
    Malformed {
        /// Id of the node.
        node: u32,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The fragment's version is another than ours.
    #[error("fragment version {found}, this engine reads version {expected}")]
    Version {
        /// As the fragment says.
        found: u32,
        /// What [`crate::build()`] reads.
        expected: u32,
    },
    /// An operator, or a way of it, that is not there yet.
    #[error("node {node}: {operator}: {reason}")]
    Operator {
        /// Id of the node.
        node: u32,
        /// Its name in the IR.
        operator: &'static str,
        /// What exactly is not supported.
        reason: String,
    },
    /// An aggregate function, or its use with these types.
    #[error("node {node}: aggregate {name}: {reason}")]
    Aggregate {
        /// Id of the node.
        node: u32,
        /// The function as the IR names it.
        name: String,
        /// What exactly is not supported.
        reason: String,
    },
    /// An expression that the expression crate refuses.
    #[error("node {node}: {source}")]
    Expression {
        /// Id of the node.
        node: u32,
        /// Its reason.
        source: coffer_expr::Unsupported,
    },
    /// A type that an operator's output has, and another that the IR declares for it.
    #[error("node {node}: column {column} is {found}, the fragment declares {declared}")]
    Type {
        /// Id of the node.
        node: u32,
        /// Position of the column.
        column: usize,
        /// What the plan produces.
        found: String,
        /// What the fragment says.
        declared: String,
    },
    /// DataFusion would not make the operator.
    #[error("node {node}: {source}")]
    Operators {
        /// Id of the node.
        node: u32,
        /// Its reason.
        source: DataFusionError,
    },
}
