package org.apache.spark.sql.coffer.exec

import java.util.concurrent.ConcurrentLinkedDeque
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import com.google.protobuf.ByteString

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
  @volatile private var named: Option[String] = None

  /** Its name in the logs of all processes and in the audit log, once it has a session. */
  def name: Option[String] = named

  def stages: Int = sealedStages.get
  def isOpen: Boolean = open

  private[exec] def nextStage(): Int = sealedStages.incrementAndGet()
  private[exec] def begin(session: ByteString): Unit =
    named = Some(ToldQuery.name(session.toByteArray))
  private[exec] def end(): Unit = open = false
}

private[coffer] object ToldQuery {
  private val MOST = 100
  private val kept = new ConcurrentLinkedDeque[ToldQuery]()

  /** In hexadecimal digits, as the other processes write it. */
  def name(session: Array[Byte]): String = session.map(b => f"$b%02x").mkString

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
