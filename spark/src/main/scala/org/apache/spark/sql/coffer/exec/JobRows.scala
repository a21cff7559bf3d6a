package org.apache.spark.sql.coffer.exec

import java.lang.ref.WeakReference
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}

/**
 * A query's rows for Spark's own jobs (`rdd`, Scala's `foreach`, MLlib) where their tasks run in
 * this process: under a local master. They are opened before the first job and kept while the RDD
 * is; a task has their number alone. What a job makes of them is as any data of that machine's.
 */
private[coffer] final class JobRows private (
    sc: SparkContext,
    @transient private val open: () => Array[InternalRow])
    extends RDD[InternalRow](sc, Nil) {
  private val number = JobRows.numbers.incrementAndGet()

  /** Of the driver's object only. */
  @transient private lazy val rows: Array[InternalRow] = {
    val all = open()
    JobRows.keep(number, all)
    all
  }

  override protected def getPartitions: Array[Partition] = {
    val slices = math.max(1, math.min(sparkContext.defaultParallelism, rows.length))
    Array.tabulate[Partition](slices) { i =>
      def at(n: Int): Int = (n.toLong * rows.length / slices).toInt
      JobRows.Slice(i, at(i), at(i + 1))
    }
  }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    split match {
      case JobRows.Slice(_, from, until) =>
        val all = JobRows.kept(number)
        (from until until).iterator.map(all(_))
      case _ => throw CofferFragmentExec.noRows
    }

  override def checkpoint(): Unit = throw CofferFragmentExec.noRows
}

private[coffer] object JobRows {
  private val numbers = new AtomicLong()
  private val known = new ConcurrentHashMap[Long, WeakReference[Array[InternalRow]]]()

  private final case class Slice(index: Int, from: Int, until: Int) extends Partition

  /** Refuses where tasks run elsewhere, and a checkpoint, which writes the rows to a folder. */
  def of(root: CofferRootExec): RDD[InternalRow] = {
    val sc = root.session.sparkContext
    val local = sc.isLocal && root.conf.getConfString(CofferConf.CLIENT_TAIL, "on") == "on"
    if (!local || checkpoints) throw CofferFragmentExec.noRows
    new JobRows(sc, () => opened(root))
  }

  private def opened(root: CofferRootExec): Array[InternalRow] = {
    val most = ClientBytes.of(root.conf)
    var bytes = 0L
    val rows = root.executeToDriver()
    Closing.whole(Closing(rows.map { row =>
      row match {
        case u: UnsafeRow => bytes += u.getSizeInBytes
        case _ => ()
      }
      if (bytes > most) throw new CofferException(
        ClientBytes.TOO_MUCH,
        s"a job was to have more bytes of a sealed query than ${ClientBytes.KEY} allows",
        s"filter or aggregate more before it, or raise ${ClientBytes.KEY} and spark.driver.memory")
      row
    })(Closing.end(rows)))
  }

  /** `Dataset.checkpoint` takes rows as an RDD, by no command that a rule could see. */
  private def checkpoints: Boolean = StackWalker.getInstance.walk[Boolean](_.anyMatch(f =>
      f.getClassName.startsWith("org.apache.spark.sql.classic.Dataset") &&
        f.getMethodName.toLowerCase(java.util.Locale.ROOT).contains("checkpoint")))

  private def keep(number: Long, rows: Array[InternalRow]): Unit = {
    known.values.removeIf(_.get == null)
    known.put(number, new WeakReference(rows))
  }

  private def kept(number: Long): Array[InternalRow] =
    Option(known.get(number)).flatMap(w => Option(w.get)).getOrElse(throw CofferFragmentExec.noRows)
}
