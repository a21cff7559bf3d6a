//! The fragment IR turned into DataFusion operators with Spark's semantics
