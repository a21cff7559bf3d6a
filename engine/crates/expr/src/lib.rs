//! Spark's scalar expressions over Arrow arrays
