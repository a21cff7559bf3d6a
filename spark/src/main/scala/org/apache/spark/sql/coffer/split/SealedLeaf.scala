package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** A leaf by which a logical plan is known to be a sealed one. */
trait SealedLeaf extends LogicalPlan
