package org.apache.spark.sql.coffer.plugin

import org.scalatest.funsuite.AnyFunSuite

class ShufflePartitionsSuite extends AnyFunSuite {
  test("as many as there are shares of the advisory size, one per core at least, Spark's number " +
    "at most") {
    val mib = 1L << 20
    assert(ShufflePartitions.number(bytes = 0, advisory = 64 * mib, cores = 2, most = 200) == 2)
    assert(ShufflePartitions.number(bytes = 64 * mib, advisory = 64 * mib, cores = 1,
      most = 200) == 1)
    assert(ShufflePartitions.number(bytes = 64 * mib + 1, advisory = 64 * mib, cores = 1,
      most = 200) == 2)
    assert(ShufflePartitions.number(bytes = 1L << 50, advisory = 64 * mib, cores = 16,
      most = 200) == 200)
    assert(ShufflePartitions.number(bytes = 1, advisory = 64 * mib, cores = 16, most = 5) == 5)
  }
}
