package org.apache.spark.sql.coffer.exec

import java.util.concurrent.ConcurrentLinkedDeque
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.SQLExecution

/**
 * A query's session, as the UI tells of it.
 *
 * @param execution its number on Spark's SQL tab, if it has one
 */
private[coffer] final class ToldQuery(val execution: Option[Long]) {
  val began: Long = System.currentTimeMillis
  private val sealedStages = new AtomicInteger()
  @volatile private var open = true

  def stages: Int = sealedStages.get
  def isOpen: Boolean = open

  private[exec] def nextStage(): Int = sealedStages.incrementAndGet()
  private[exec] def end(): Unit = open = false
}

private[coffer] object ToldQuery {
  private val MOST = 100
  private val kept = new ConcurrentLinkedDeque[ToldQuery]()

  /** The last ones that had a session, the last first. */
  def last: Seq[ToldQuery] = kept.asScala.toSeq

  private[exec] def tell(query: ToldQuery): Unit = {
    kept.addFirst(query)
    while (kept.size > MOST) kept.pollLast()
  }

  /** That the calling thread runs. */
  private[exec] def execution: Option[Long] =
    SparkContext.getActive
      .flatMap(sc => Option(sc.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)))
      .flatMap(_.toLongOption)
}
