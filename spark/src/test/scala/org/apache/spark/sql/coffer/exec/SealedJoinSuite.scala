package org.apache.spark.sql.coffer.exec

import java.util.concurrent.CountDownLatch

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.{
  MapOutputTrackerMaster,
  SparkArithmeticException,
  SparkEnv,
  SparkException
}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.coffer.fake.FakeSession
import org.apache.spark.sql.coffer.proto.plan.{Fragment, Join, JoinType, Node, Partitioning, Sink}
import org.apache.spark.sql.coffer.proto.wire.SealStage
import org.apache.spark.sql.execution.ExplainMode

/**
 * Joins in Spark itself, with engines that check that each task is fed exactly the streams of its
 * list.
 */
class SealedJoinSuite extends AnyFunSuite with FakeSession {
  private val noBroadcast = Seq("spark.sql.autoBroadcastJoinThreshold" -> "-1")
  private val adaptive = "spark.sql.adaptive.enabled"

  private def nodes(node: Node): Seq[Node] = node +: (node.getOpCase match {
    case Node.OpCase.FILTER => nodes(node.getFilter.getChild)
    case Node.OpCase.PROJECT => nodes(node.getProject.getChild)
    case Node.OpCase.AGGREGATE => nodes(node.getAggregate.getChild)
    case Node.OpCase.SORT => nodes(node.getSort.getChild)
    case Node.OpCase.LIMIT => nodes(node.getLimit.getChild)
    case Node.OpCase.UNION => node.getUnion.getChildrenList.asScala.toSeq.flatMap(nodes)
    case Node.OpCase.JOIN => nodes(node.getJoin.getLeft) ++ nodes(node.getJoin.getRight)
    case _ => Nil
  })

  /** The stages that a query had sealed, with their fragments. */
  private def stages(sql: String): Seq[(SealStage, Fragment)] = {
    val before = client.stages.size
    spark.sql(sql).collect()
    client.stages.asScala.toSeq.drop(before).map(s => s -> Fragment.parseFrom(s.getFragment))
  }

  private def joins(sql: String): Seq[Join] =
    stages(sql).flatMap { case (_, f) => nodes(f.getRoot) }.filter(_.hasJoin).map(_.getJoin)

  private val equal = Seq(
    "SELECT a.k, b.s FROM t a JOIN u b ON a.k = b.k",
    "SELECT a.k, b.s FROM t a LEFT JOIN u b ON a.k = b.k AND a.v < b.v",
    "SELECT a.k, b.s FROM t a RIGHT JOIN u b ON a.k = b.k",
    "SELECT a.k, b.s FROM t a FULL JOIN u b ON a.k = b.k",
    "SELECT k FROM t WHERE k IN (SELECT k FROM u)",
    "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v > t.v)",
    "SELECT k FROM t WHERE k IN (SELECT k FROM u) OR v > 3",
    "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u)",
    "SELECT a.k, b.s FROM t a JOIN u b ON a.k <=> b.k AND a.s = b.s",
    "SELECT a.v FROM t a JOIN u b ON a.v = b.v",
    "SELECT x.k, y.c FROM t x JOIN (SELECT k, count(*) c FROM u GROUP BY k) y ON x.k = y.k",
    "SELECT a.k FROM t a JOIN u b ON a.k = b.k JOIN t c ON b.k = c.k",
    "SELECT a.s, count(*) FROM t a JOIN u b ON a.k = b.k GROUP BY a.s ORDER BY 2 DESC LIMIT 3",
    "SELECT a.k FROM t a JOIN t b ON a.k = b.k",
    "SELECT a.k, v.n FROM t a JOIN VALUES (1L, 'x'), (2L, 'y') AS v(id, n) ON a.k = v.id",
    "SELECT a.k FROM t a JOIN u b ON a.k = b.k UNION ALL SELECT a.k FROM t a JOIN u b ON a.v = b.v",
    "WITH c AS (SELECT k, max(v) m FROM t GROUP BY k) SELECT x.k FROM c x JOIN c y ON x.m = y.m " +
      "WHERE x.m > (SELECT avg(m) FROM c)",
    "SELECT k, (SELECT max(v) FROM u WHERE u.k = t.k) FROM t")

  private val unequal = Seq(
    "SELECT a.k, b.s FROM t a CROSS JOIN u b",
    "SELECT count(*) FROM t a, u b",
    "SELECT a.k, n FROM t a CROSS JOIN VALUES (1), (2) AS v(n)",
    "SELECT a.k, n FROM t a JOIN VALUES (1), (2) AS v(n) ON a.k < v.n",
    "SELECT (SELECT max(k) FROM t), (SELECT min(k) FROM u)",
    "SELECT a.k, b.s FROM t a JOIN u b ON a.v < b.v",
    "SELECT a.k, b.s FROM t a LEFT JOIN u b ON a.v < b.v",
    "SELECT a.k, b.s FROM t a RIGHT JOIN u b ON a.v < b.v",
    "SELECT a.k, b.s FROM t a FULL JOIN u b ON a.v < b.v",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.v > t.v)",
    "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.v > t.v)",
    "SELECT k FROM t WHERE (k, v) NOT IN (SELECT k, v FROM u)",
    "SELECT /*+ SHUFFLE_REPLICATE_NL(a) */ a.k FROM t a JOIN u b ON a.k = b.k")

  for (aqe <- Seq("true", "false");
    (name, conf) <- Seq("broadcast" -> Nil,
      "shuffled" ->
        noBroadcast))
    test(s"joins of every kind run ($name, adaptive: $aqe)") {
      withConf(conf :+ (adaptive -> aqe): _*) {
        (equal ++ unequal).foreach { sql =>
          val df = spark.sql(sql)
          withClue(sql)(df.collect())
          // Once more over the same shuffles and broadcasts.
          withClue(sql)(df.collect())
        }
      }
    }

  test("a broadcast is one stage; its readers' tasks each read all of it") {
    val all = stages("SELECT a.k, b.s FROM t a JOIN u b ON a.k = b.k")
    val (written, _) = all.find(_._2.getSink.getKindCase == Sink.KindCase.BROADCAST).get
    val (reader, fragment) = all.find(_._2.getSink.hasResult).get
    val input = reader.getInputsList.asScala.find(_.getBroadcast).get
    assert(input.getProducerStage == written.getStage && input.getMaps == written.getTasksCount &&
      input.getReduces == 1)
    assert(reader.getTasksList.asScala.forall(
        _.getRectanglesList.asScala.exists(_.getMapEnd == input.getMaps)))
    val join = nodes(fragment.getRoot).find(_.hasJoin).get.getJoin
    assert(join.getBroadcast && join.getStrategy == Join.Strategy.HASH)
    assert(nodes(fragment.getRoot).filter(_.hasInput).forall(_.getInput.getBroadcast))
  }

  test("without a broadcast joins are hashed, without sorts, over inputs of one group") {
    withConf(noBroadcast: _*) {
      val all = stages("SELECT a.k, b.s FROM t a JOIN u b ON a.k = b.k")
      val (stage, fragment) = all.find(_._2.getSink.hasResult).get
      val join = nodes(fragment.getRoot).find(_.hasJoin).get.getJoin
      assert(join.getStrategy == Join.Strategy.HASH && !join.getBroadcast)
      assert(!nodes(fragment.getRoot).exists(_.hasSort))
      assert(stage.getInputsList.asScala.map(_.getGroup).distinct.toSeq == Seq(1))
    }
  }

  test("hints win") {
    withConf(noBroadcast: _*) {
      assert(joins("SELECT /*+ MERGE(b) */ a.k FROM t a JOIN u b ON a.k = " +
        "b.k").map(_.getStrategy) == Seq(Join.Strategy.SORT_MERGE))
      assert(joins("SELECT /*+ BROADCAST(a) */ a.k FROM t a JOIN u b ON a.k = " +
          "b.k").forall(j => j.getBroadcast && j.getBuildLeft))
      assert(joins("SELECT /*+ SHUFFLE_HASH(a) */ a.k FROM t a JOIN u b ON a.k = " +
          "b.k").forall(j => !j.getBroadcast && j.getBuildLeft))
    }
  }

  test("a join whose build side does not fit an engine's memory sorts and merges") {
    client.bytes = _ => 1L << 30
    try withConf(noBroadcast: _*) {
        assert(joins("SELECT a.k, b.s FROM t a JOIN u b ON a.k = " +
          "b.k").map(_.getStrategy) == Seq(Join.Strategy.SORT_MERGE))
      }
    finally client.bytes = _ => 100L
  }

  test("AQE turns a join into a broadcast by the sizes in sealed commits, and reads the other " +
    "side where it lies") {
    withConf(noBroadcast :+ ("spark.sql.adaptive.autoBroadcastJoinThreshold" -> "10MB"): _*) {
      val all = stages("SELECT a.k, b.s FROM t a JOIN u b ON a.k = b.k")
      assert(all.exists(_._2.getSink.getKindCase == Sink.KindCase.BROADCAST))
      val (_, fragment) = all.find(_._2.getSink.hasResult).get
      assert(nodes(fragment.getRoot).find(_.hasJoin).get.getJoin.getBroadcast)
    }
  }

  test("a skewed partition is split, and the other side read again for each part") {
    client.bytes = reduce => if (reduce == 1) 1000L else 1L
    try withConf(
        noBroadcast ++ Seq(
          "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes" -> "100b",
          "spark.sql.adaptive.advisoryPartitionSizeInBytes" -> "16b",
          "spark.sql.adaptive.coalescePartitions.enabled" -> "false"): _*) {
        Seq("JOIN", "LEFT JOIN").foreach { kind =>
          val (stage, _) = stages(s"SELECT a.k, b.s FROM t a $kind u b ON a.k = " +
            s"b.k").find(_._2.getSink.hasResult).get
          // Five reduce partitions, one of them in more than one part; the fake client engine
          // checks that the parts tile.
          assert(stage.getTasksCount > 5, kind)
        }
      }
    finally client.bytes = _ => 100L
  }

  test("AQE drops what sealed commits say is empty, and nothing else") {
    client.rows = _ => 0L
    try withConf(noBroadcast: _*)(assert(spark.sql("SELECT a.k FROM t a JOIN u b ON a.k = " +
            "b.k").collect().isEmpty))
    finally client.rows = _.toLong
  }

  test("outer joins that would emit unmatched rows of a broadcast run in one partition") {
    withConf(noBroadcast: _*) {
      Seq("FULL" -> JoinType.FULL_OUTER, "LEFT" -> JoinType.LEFT_OUTER,
        "RIGHT" ->
          JoinType.RIGHT_OUTER).foreach { case (kind, wanted) =>
        val all = stages(s"SELECT a.k, b.s FROM t a $kind JOIN u b ON a.v < b.v")
        val join = all.flatMap(s => nodes(s._2.getRoot)).find(_.hasJoin).get.getJoin
        assert(join.getStrategy == Join.Strategy.NESTED_LOOP && join.getType == wanted &&
          !join.getBroadcast)
        assert(all.count(_._2.getSink.getShuffle.getKindCase == Partitioning.KindCase.SINGLE) == 2)
      }
    }
  }

  test("a product's tasks are the cells of its grid, also of three sides and over shuffles") {
    withConf(noBroadcast: _*) {
      val (stage, fragment) = stages("SELECT a.k, b.s FROM t a JOIN u b ON a.v < b.v").last
      val join = nodes(fragment.getRoot).find(_.hasJoin).get.getJoin
      assert(join.getStrategy == Join.Strategy.NESTED_LOOP && !join.getBroadcast)
      assert(stage.getTasksCount == 4 && stage.getProductsCount == 1)
      assert(stage.getScansList.asScala.map(_.getSide).toSet == Set(1, 2))
      val positions = stage.getTasksList.asScala.map(
        _.getPositionsList.asScala.map(_.getPartition.toInt).toSeq).toSeq
      assert(positions == Seq(Seq(0, 0), Seq(0, 1), Seq(1, 0), Seq(1, 1)))

      val (three, _) = stages("SELECT count(*) FROM t a CROSS JOIN u b CROSS JOIN t c").head
      assert(three.getTasksCount == 8 && three.getProducts(0).getSidesCount == 3)
      val shuffled = stages(
        "SELECT count(*) FROM (SELECT k, count(*) n FROM t GROUP BY k) x JOIN (SELECT s, " +
          "count(*) n FROM u GROUP BY s) y ON x.n < y.n")
      assert(shuffled.exists(_._1.getInputsList.asScala.map(_.getSide).toSet == Set(1, 2)))
    }
  }

  test("both sides of a self join are read of one shuffle, or broadcast") {
    withConf(noBroadcast: _*) {
      val all = stages("SELECT a.k FROM t a JOIN t b ON a.k = b.k")
      assert(all.size == 2)
      assert(all.last._1.getInputsList.asScala.map(_.getProducerStage).distinct.size == 1)
    }
  }

  test("a shuffle starts from as many partitions as the query's tables ask for") {
    withConf(noBroadcast: _*) {
      def partitions: Set[Int] = stages("SELECT a.k, b.s FROM t a JOIN u b ON a.k = b.k")
        .map(_._2.getSink.getShuffle).filter(_.hasHash).map(_.getHash.getPartitions).toSet
      assert(partitions == Set(2)) // of two cores
      withConf("spark.sql.adaptive.advisoryPartitionSizeInBytes" ->
        "5000b")(assert(partitions == Set(4))) // three, and two cores
      withConf("spark.sql.adaptive.coalescePartitions.initialPartitionNum" ->
        "7")(assert(partitions == Set(7)))
      withConf(adaptive -> "false")(assert(partitions == Set(5)))
    }
  }

  test("a broadcast that takes too long is cancelled") {
    val latch = new CountDownLatch(1)
    engine.held = Some(latch)
    try withConf(adaptive -> "false", "spark.sql.broadcastTimeout" -> "1") {
        val e = intercept[SparkException](
          spark.sql("SELECT a.k, b.s FROM t a JOIN u b ON a.k = b.k").collect())
        assert(e.getCondition == "_LEGACY_ERROR_TEMP_2097", e)
      }
    finally {
      engine.held = None
      latch.countDown()
    }
  }

  test("a broadcast over Spark's limit is refused") {
    client.bytes = _ => 9L << 30
    try {
      val e = intercept[SparkException](
        spark.sql("SELECT /*+ BROADCAST(b) */ a.k, b.s FROM t a JOIN u b ON a.k = b.k").collect())
      assert(e.getCondition == "_LEGACY_ERROR_TEMP_2249", e)
    } finally client.bytes = _ => 100L
  }

  Seq("true", "false").foreach { aqe =>
    test(s"what failed in a broadcast's task is opened at the client (adaptive: $aqe)") {
      withConf(adaptive -> aqe) {
        engine.failures.put((1, 0), 100)
        val e =
          intercept[SparkArithmeticException](spark.sql("SELECT a.k, b.s FROM t a JOIN u b ON " +
              "a.k = b.k").collect())
        engine.failures.clear()
        assert(e.getCondition == "DIVIDE_BY_ZERO")
      }
    }
  }

  test("a task that read a broadcast is repeated over the same broadcast, beside a shuffle's new " +
    "list of attempts") {
    val sql = "SELECT /*+ BROADCAST(b) */ x.k, b.s FROM (SELECT k, count(*) FROM t GROUP BY k) x " +
      "JOIN u b ON x.k = b.k"
    val df = spark.sql(sql)
    df.collect()
    val last = client.stages.asScala.last
    engine.failures.put((last.getStage + 1, 0), 1)
    df.collect()
    val again = engine.starts.asScala.filter(s =>
      s.getSession == last.getSession &&
        s.getStage == last.getStage + 1 && s.getPartition == 0)
    assert(again.size == 2 && engine.failures.values.asScala.forall(_ <= 0))
    // The first run's broadcast, and no list of attempts for it but the one in the sealed stage.
    assert(client.accepted.asScala.count(_.getSession == last.getSession) == 2)
  }

  test("a join is run again though all outputs of its shuffles were lost meanwhile") {
    withConf(noBroadcast: _*) {
      val df = spark.sql("SELECT a.k, b.s FROM t a JOIN u b ON a.k = b.k UNION ALL SELECT a.k, " +
        "b.s FROM t a JOIN u b ON a.k = b.k")
      val rows = df.collect().length
      val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
      val before = engine.tasks.get
      tracker.shuffleStatuses.keys.foreach(tracker.unregisterAllMapAndMergeOutput)
      assert(df.collect().length == rows)
      assert(engine.tasks.get > before + rows)
    }
  }

  test("EXPLAIN shows a join with both of its sides") {
    val df: DataFrame = spark.sql("SELECT a.k, b.s FROM t a JOIN u b ON a.k = b.k")
    df.collect()
    val text = df.queryExecution.explainString(ExplainMode.fromString("simple"))
    assert(text.contains("fragment → broadcast: "), text)
    assert(
      "fragment → result, .*BroadcastHashJoin inner \\(broadcast \\| .*/sealed/u`\\)".r.findFirstIn(
        text).isDefined, text)
  }
}
