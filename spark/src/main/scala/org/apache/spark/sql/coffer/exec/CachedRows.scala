package org.apache.spark.sql.coffer.exec

import java.lang.ref.WeakReference
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReference

import scala.concurrent.duration.Duration
import scala.jdk.CollectionConverters._

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{SparkListener, SparkListenerUnpersistRDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.proto.wire.{CommitsAccepted, ReadCache}
import org.apache.spark.sql.execution.columnar.{CachedRDDBuilder, InMemoryRelation}
import org.apache.spark.util.ThreadUtils

/** Rows that are kept for later queries, and computed anew where they are gone. */
trait KeptRows {

  /** Forgets them. */
  def drop(): Unit
}

/**
 * Rows that outlive the query that computed them: `CACHE TABLE`, `persist`, a checkpoint. A sealed
 * exchange has written them, one stream for each partition, and they lie where Spark keeps what
 * shuffles write. Its session is kept, with a key from the application's cache key; queries that
 * read them are sessions of their own.
 *
 * @param filling the query, with [[CofferCacheStageExec]] as its last stage
 */
final class CachedRows(val filling: CofferRootExec) extends KeptRows {
  private val written = new AtomicReference[Option[CofferShuffleExchangeExec]](None)
  private def sc: SparkContext = filling.session.sparkContext

  /** Computes them if they are not there: at first use, after `drop`, or where executors went. */
  def exchange(): CofferShuffleExchangeExec = synchronized {
    CofferQuery.apart(sc) {
      val held = written.get.getOrElse {
        val made = filling.through {
          case stage: CofferCacheStageExec => stage.write()
          case other => throw CofferException.refusal(Seq(s"${other.nodeName} caches nothing"))
        }
        written.set(Some(made))
        made
      }
      if (held.sealedShuffle.hasGaps) CofferQuery.within(sc, filling.query) {
        val again = NeutralJob.run(sc)(sc.submitMapStage(held.sealedShuffle.dependency))
        ThreadUtils.awaitResult(again, CachedRows.forever)
      }
      held
    }
  }

  /** Unpacked bytes, once they are there. */
  def bytes: Option[Long] = written.get.map(
    _.sealedShuffle.known().getBytesByReduceList.asScala.map(_.longValue).sum)

  /**
   * Forgets them; whoever needs them later computes them anew. While jobs run, which may read them,
   * Spark removes the files when nothing refers to them any more.
   */
  override def drop(): Unit = written.getAndSet(None).foreach { exchange =>
    if (sc.statusTracker.getActiveJobIds().isEmpty)
      sc.cleaner.foreach(_.doCleanupShuffle(exchange.shuffleId, blocking = false))
  }
}

object CachedRows {
  private val forever = Duration(Long.MaxValue, TimeUnit.NANOSECONDS)

  /** By Spark's id of the RDD that stands for them; see [[CacheHandle]]. */
  private val handles = new ConcurrentHashMap[Int, WeakReference[KeptRows]]()
  private val listening = new AtomicReference[SparkContext]()

  /** What Spark's cache has of a sealed query; none of a plain one. */
  def of(relation: InMemoryRelation): Option[CacheEntry] = relation.cachedPlan match {
    case entry: CacheEntry => Some(entry)
    case _ => None
  }

  /** Of an entry of Spark's cache; they are dropped when Spark drops that. */
  def held(entry: CacheEntry, builder: CachedRDDBuilder): Unit = {
    val sc = entry.session.sparkContext
    if (listening.getAndSet(sc) ne sc) sc.addSparkListener(new SparkListener {
      override def onUnpersistRDD(dropped: SparkListenerUnpersistRDD): Unit =
        Option(handles.remove(dropped.rddId)).flatMap(r => Option(r.get)).foreach(_.drop())
    })
    handles.put(builder.cachedColumnBuffers.id, new WeakReference(entry.kept))
  }
}

/**
 * What Spark's cache holds in the place of blocks: by its id Spark says when an entry is dropped.
 * It has no rows, and fails rather than to have none.
 */
private[exec] final class CacheHandle(sc: SparkContext) extends RDD[InternalRow](sc, Nil) {
  override protected def getPartitions: Array[Partition] = Array(new Partition {
    override def index: Int = 0
  })
  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
    throw CofferFragmentExec.noRows
}

/** Cached rows as a stage of the query that reads them. */
final class CachedInput(val query: CofferQuery, val exchange: CofferShuffleExchangeExec)
    extends AcceptedStage {
  override val stage: Int = query.nextStage()
  private var last: Option[(CommitsAccepted, CommitsAccepted)] = None

  /** Asked again when map tasks of the cache were repeated, as of any exchange. */
  override def accepted(): CommitsAccepted = synchronized {
    val shuffle = exchange.sealedShuffle
    val there = shuffle.accepted()
    last.collect { case (of, here) if of eq there => here }.getOrElse {
      val here = query.client.readCache(
        ReadCache.newBuilder
          .setSession(query.session)
          .setStage(stage)
          .setCacheSession(shuffle.query.session)
          .setCacheStage(shuffle.stage)
          .build())
      last = Some((there, here))
      here
    }
  }
}
