package org.apache.spark.sql.coffer.exec

import java.lang.ref.{Cleaner, WeakReference}
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger, AtomicLong}

import scala.concurrent.Future
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.google.protobuf.ByteString

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.{ExprId, Expression}
import org.apache.spark.sql.coffer.common.{Client, ClientEngine, CofferException}
import org.apache.spark.sql.coffer.proto.wire.{SealValue, TableScan}
import org.apache.spark.sql.coffer.translate.Literals
import org.apache.spark.sql.execution.{ScalarSubquery, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.ThreadUtils

/**
 * What one QueryExecution has on the sealed side: a session of the client engine, drawn at first
 * use, and the ids that are unique in it. The plan's nodes hold it, so it lives as long as the
 * query's shuffles can be read; then the session is ended.
 */
final class CofferQuery private (val id: Long, caches: Boolean) extends Logging {

  /** Whether all its stages may run in one request: other queries read none of them. */
  def runsWhole: Boolean = !caches
  private val objects = new AtomicInteger()
  private val executions = new AtomicLong()
  private val subqueryIds = new ConcurrentHashMap[(ExprId, Int), Integer]()
  private val sealedValues = ConcurrentHashMap.newKeySet[Int]()
  private val shuffles = new ConcurrentHashMap[Int, AcceptedStage]()
  private val pending = new ConcurrentLinkedQueue[Future[Unit]]()
  private val ending = new CofferQuery.Ending(id)

  lazy val client: ClientEngine = Client.get

  /**
   * What the user asked, for the audit log at the client: it goes to the client engine, and nowhere
   * else.
   */
  @volatile private var asked: String = ""
  def asks(text: => String): Unit = if (asked.isEmpty) asked = text

  private val told = new ToldQuery(ToldQuery.execution)

  /** Its name in logs: its session's. */
  private[exec] def name: String = ToldQuery.name(session.toByteArray)

  private lazy val receipts = Receipts.of(SQLConf.get)

  lazy val session: ByteString = {
    val session = client.newSession(asked, caches, receipts.isDefined)
    hasSession = true
    ending.begin(client, session, told)
    told.begin(session)
    ToldQuery.tell(told)
    logInfo(s"query ${told.name.mkString} is sealed" +
      told.execution.fold("")(id => s"; it is SQL execution $id"))
    CofferQuery.sessions.put(session, new WeakReference(this))
    session
  }

  @volatile private var hasSession = false

  /** Writes the query's receipt, where the user wants receipts and something ran sealed. */
  private[exec] def receipt(): Unit = if (hasSession) receipts.foreach(_.write(this))

  private val scans = ConcurrentHashMap.newKeySet[PlannedScan]()
  private val announced = new AtomicBoolean()

  /** Notes what a plan of the query will read, before anything of it runs. */
  def reads(plan: SparkPlan): Unit = PlannedScans.of(plan).foreach { s =>
    if (scans.add(s)) announced.set(false)
  }

  /**
   * All of unverified inputs: their files are pinned together, with the first stage that reads any.
   */
  def unverified: Seq[TableScan] = described(scans.asScala.toSeq.filter(_.unverified))

  /** All, once: their keys are recorded and go out with the stage that is sealed next. */
  def planned(): Seq[TableScan] =
    if (announced.compareAndSet(false, true)) described(scans.asScala.toSeq) else Nil

  private def described(some: Seq[PlannedScan]): Seq[TableScan] =
    some.sortBy(s => (s.handle, s.columns.mkString("\u0000"))).map { s =>
      TableScan.newBuilder.setHandle(s.handle).addAllColumns(s.columns.asJava).build()
    }

  private val auditTime = new AtomicLong()
  private[exec] def audited(micros: Long): Unit = auditTime.addAndGet(micros)

  /** What the audit log took of sealing the stages, in microseconds. */
  private[coffer] def auditMicros: Long = auditTime.get

  def nextStage(): Int = told.nextStage()
  def nextObject(): Int = objects.incrementAndGet()

  /** Shuffles are written once in a session, as execution 0; each run of a result is its own. */
  def nextExecution(): Long = executions.incrementAndGet()

  /** `field`: which of its values, where the optimizer has merged several subqueries into one. */
  def subqueryId(subquery: ScalarSubquery, field: Int): Int =
    subqueryIds.computeIfAbsent((subquery.exprId, field),
      _ => Integer.valueOf(nextObject())).intValue

  /** Seals a scalar subquery's value, once: it is the same for all fragments that name it. */
  def sealValue(valueId: Int, value: Expression): Unit = sealedValues.synchronized {
    if (!sealedValues.contains(valueId)) {
      val literal = Literals.of(value.eval(null), value.dataType) match {
        case Right(l) => l
        case Left(unsupported) => throw CofferException.refusal(Seq(unsupported.message))
      }
      client.sealValue(
        SealValue.newBuilder.setSession(session).setId(valueId).setLiteral(literal).build())
      sealedValues.add(valueId)
    }
  }

  def register(shuffle: AcceptedStage): Unit = shuffles.put(shuffle.stage, shuffle)

  /**
   * Does what the query does not wait for: opening metrics. What fails there is not the query's
   * concern.
   */
  def later(body: => Unit): Unit = pending.add(Future {
    try body
    catch { case NonFatal(e) => logWarning("a stage's metrics were not opened", e) }
  }(StageMetrics.executor))

  /** What goes on by itself, and is over before the query ends. */
  private[exec] def settles(ending: Future[Unit]): Unit = pending.add(ending)

  /** Waits for what was put off, so that the query's metrics are there when it ends. */
  def settle(): Unit = Iterator.continually(pending.poll()).takeWhile(_ != null).foreach { f =>
    try ThreadUtils.awaitReady(f, CofferQuery.patience)
    catch { case NonFatal(e) => logDebug("metrics took too long", e) }
  }

  /** The list of attempts of a shuffle that counts now, for a task that is repeated. */
  def currentAttempts(stage: Int): ByteString = Option(shuffles.get(stage)) match {
    case Some(shuffle) => shuffle.accepted().getSealedAttempts
    case None => throw new CofferException("COFFER_STAGE", s"stage $stage is not of this query", "")
  }

  CofferQuery.cleaner.register(this, ending)
}

object CofferQuery extends Logging {

  /**
   * Set in the threads that run a query, so that its stages find it; a number that says nothing.
   */
  val PROPERTY = "spark.coffer.query"

  private val cleaner = Cleaner.create()
  private val patience = 5.seconds
  private val ids = new AtomicLong()
  private val queries = new ConcurrentHashMap[Long, WeakReference[CofferQuery]]()
  private val sessions = new ConcurrentHashMap[ByteString, WeakReference[CofferQuery]]()

  /** `caches`: other queries read what it writes. */
  def create(caches: Boolean = false): CofferQuery = {
    val query = new CofferQuery(ids.incrementAndGet(), caches)
    queries.put(query.id, new WeakReference(query))
    query
  }

  def current(sc: SparkContext): Option[CofferQuery] =
    Option(sc.getLocalProperty(PROPERTY)).flatMap(_.toLongOption).flatMap(id =>
      Option(queries.get(id))).flatMap(w =>
      Option(w.get))

  def required(sc: SparkContext): CofferQuery = current(sc).getOrElse(throw new CofferException(
      "COFFER_NO_QUERY",
      "a part of a sealed plan was run outside of its query",
      "use collect, show, toLocalIterator, coffer.to_arrow or coffer.to_pandas"))

  def bySession(session: ByteString): Option[CofferQuery] =
    Option(sessions.get(session)).flatMap(w => Option(w.get))

  /**
   * Runs `body` as part of the query that is running, or else of `own` (subqueries belong to their
   * query).
   */
  def within[T](sc: SparkContext, own: CofferQuery)(body: => T): T =
    if (current(sc).isDefined) body
    else {
      val before = sc.getLocalProperty(PROPERTY)
      sc.setLocalProperty(PROPERTY, own.id.toString)
      try body
      finally sc.setLocalProperty(PROPERTY, before)
    }

  /** Runs `body` outside of the query that is running: what it starts is a query of its own. */
  def apart[T](sc: SparkContext)(body: => T): T = {
    val before = sc.getLocalProperty(PROPERTY)
    sc.setLocalProperty(PROPERTY, null)
    try body
    finally sc.setLocalProperty(PROPERTY, before)
  }

  /** Must not refer to its query, or that would never be unreachable. */
  private final class Ending(id: Long) extends Runnable {
    @volatile private var begun: Option[(ClientEngine, ByteString, ToldQuery)] = None

    def begin(client: ClientEngine, session: ByteString, told: ToldQuery): Unit =
      begun = Some((client, session, told))

    override def run(): Unit = {
      queries.remove(id)
      begun.foreach { case (client, session, told) =>
        sessions.remove(session)
        told.end()
        try client.endSession(session)
        catch {
          case NonFatal(e) => logDebug("a session was not ended; it ends with the client " +
                "engine", e)
        }
      }
    }
  }

  private[coffer] def liveSessions: Int = sessions.asScala.size
}
