package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec

/** Operators whose absence deserves a better reason than that they are absent. */
private[translate] object RefusedOperators extends OperatorFamily {
  private val plaintext =
    "a plaintext table beside a sealed one: its rows would be read outside the enclave; encrypt " +
      "it with `coffer encrypt`"

  override def entries: Seq[OperatorEntry] = Seq(
    refused[CoalesceExec]("merging partitions without an exchange is not supported; use " +
      "repartition instead of coalesce"),
    refused[RDDScanExec]("its rows are plain and would be shipped inside tasks"),
    refused[ExternalRDDScanExec[_]]("its rows are plain and would be shipped inside tasks"),
    refused[FileSourceScanExec](plaintext),
    refused[BatchScanExec](plaintext),
    refused[RowDataSourceScanExec](plaintext),
    refused[InMemoryTableScanExec]("cached rows of plain data lie opened in executors' memory"),
    refused[CollectMetricsExec]("engines count no observed metrics; the client tail does"))
}
