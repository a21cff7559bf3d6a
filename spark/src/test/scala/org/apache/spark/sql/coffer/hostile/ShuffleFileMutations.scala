package org.apache.spark.sql.coffer.hostile

import java.io.File
import java.nio.ByteBuffer
import java.nio.file.Files

import scala.util.Random

import org.apache.spark.{MapOutputTrackerMaster, SparkEnv, TaskContext}
import org.apache.spark.storage.{ShuffleDataBlockId, ShuffleIndexBlockId}

/**
 * Changes of map outputs' files on the executor's disk, between map and reduce: a data file of
 * blocks, and an index of where each ends.
 */
object ShuffleFileMutations {

  val all: Map[String, Random => Mutation] = Map(
    "shuffle-data-flipped" -> one((f, rng) => f.data = Bytes.flipped(f.data, rng)),
    "shuffle-data-cut" -> one((f, rng) => f.data = Bytes.cut(f.data, rng)),
    "shuffle-data-extended" -> one((f, rng) => f.data = Bytes.extended(f.data, rng)),
    "shuffle-data-zeroed" -> one((f, rng) => f.data = zeroed(f.data, rng)),
    "shuffle-data-missing" -> one((f, _) => Files.delete(f.dataFile.toPath)),
    "shuffle-index-flipped" -> one((f, rng) => f.index = Bytes.flipped(f.index, rng)),
    "shuffle-index-cut" -> one((f, rng) => f.index = Bytes.cut(f.index, rng)),
    "shuffle-index-missing" -> one((f, _) => Files.delete(f.indexFile.toPath)),
    "shuffle-both-files-missing" -> one((f, _) => f.delete()),
    "shuffle-block-emptied" ->
      one((f, rng) => f.blocks = replaced(f.blocks, rng)(_ => Array.emptyByteArray)),
    "shuffle-block-cut" -> one((f, rng) =>
      f.blocks = replaced(f.blocks, rng)(b => Bytes.cut(b, rng))),
    "shuffle-block-twice" -> one((f, rng) => f.blocks = replaced(f.blocks, rng)(b => b ++ b)),
    "shuffle-block-of-another-reducer" ->
      one((f, rng) =>
        f.blocks = replaced(f.blocks, rng)(_ => f.blocks(rng.nextInt(f.blocks.length)))),
    "shuffle-blocks-swapped" -> one((f, rng) => f.blocks = swapped(f.blocks, rng)),
    "shuffle-blocks-as-one" -> one((f, _) =>
      f.blocks = f.blocks.flatten.toArray +:
        f.blocks.tail.map(_ => Array.emptyByteArray)),
    "shuffle-of-an-earlier-query" -> one((f, rng) =>
      Museum.output(rng).foreach { old =>
        f.data = old.data
        f.index = old.index
      }),
    "shuffle-data-of-an-earlier-query" ->
      one((f, rng) => Museum.output(rng).foreach(old => f.data = old.data)),
    "shuffle-maps-swapped" -> two((a, b, _) => {
      val (data, index) = (a.data, a.index)
      a.data = b.data
      a.index = b.index
      b.data = data
      b.index = index
    }),
    "shuffle-map-twice" -> two((a, b, _) => {
      a.data = b.data
      a.index = b.index
    }),
    "shuffle-index-of-another-map" -> two((a, b, _) => a.index = b.index),
    "shuffle-block-of-another-map" -> two((a, b, rng) => {
      val from = b.blocks
      val at = rng.nextInt(from.length)
      if (at < a.blocks.length) a.blocks = a.blocks.updated(at, from(at))
    }),
    "shuffle-map-a-link" -> two((a, b, _) => {
      Files.delete(a.dataFile.toPath)
      Files.createSymbolicLink(a.dataFile.toPath, b.dataFile.toPath)
    })
  )

  private def zeroed(bytes: Array[Byte], rng: Random): Array[Byte] = {
    val from = if (bytes.isEmpty) 0 else rng.nextInt(bytes.length)
    val length = 1 + rng.nextInt(256)
    bytes.patch(from, Array.fill[Byte](math.min(length, bytes.length - from))(0), length)
  }

  private def replaced(
      blocks: Array[Array[Byte]],
      rng: Random)(by: Array[Byte] => Array[Byte]): Array[Array[Byte]] = {
    val at = rng.nextInt(blocks.length)
    blocks.updated(at, by(blocks(at)))
  }

  private def swapped(blocks: Array[Array[Byte]], rng: Random): Array[Array[Byte]] = {
    val (a, b) = (rng.nextInt(blocks.length), rng.nextInt(blocks.length))
    blocks.updated(a, blocks(b)).updated(b, blocks(a))
  }

  private def one(change: (Output, Random) => Unit): Random => Mutation =
    rng => new BetweenMapAndReduce(rng, (outputs, r) => change(outputs(r.nextInt(outputs.size)), r))

  private def two(change: (Output, Output, Random) => Unit): Random => Mutation = rng =>
    new BetweenMapAndReduce(rng,
      (outputs, r) =>
        if (outputs.size > 1) r.shuffle(outputs) match {
          case a +: b +: _ => change(a, b, r)
          case _ =>
        })

  /** Changes one shuffle of the query, when a task starts and all maps of the shuffle are done. */
  private final class BetweenMapAndReduce(rng: Random, change: (Seq[Output], Random) => Unit)
      extends Mutation {
    private val before = shuffles.keySet
    // Some queries have several shuffles, one after the other.
    private var patience = rng.nextInt(2)
    private var seen = Set.empty[Int]
    private var done = false

    override def atStart(context: TaskContext): Unit = shuffles.filter { case (id, _) =>
      !before(id)
    }.toSeq.sortBy(-_._1)
      .collectFirst { case (id, maps) if !seen(id) => id -> maps }.foreach { case (shuffle, maps) =>
        seen += shuffle
        val outputs = maps.map(new Output(shuffle, _)).filter(_.isThere)
        // A later mutation shows this query's files as an earlier query's.
        outputs.headOption.foreach(o => Museum.keep(Museum.MapOutput(o.data, o.index)))
        if (patience > 0 && seen.size < 2) patience -= 1
        else if (!done && outputs.nonEmpty) {
          val was = outputs.map(_.content)
          change(outputs, rng)
          val changed = outputs.zip(was).filter { case (o, w) => o.content != w }
          done = changed.nonEmpty
          changed.foreach { case (o, _) => Hostile.did(s"shuffle $shuffle, map ${o.map}") }
        }
      }

    /** The ids of the maps of each shuffle of which no output is missing. */
    private def shuffles: Map[Int, Seq[Long]] = {
      val tracker = SparkEnv.get.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster]
      tracker.shuffleStatuses.iterator.flatMap { case (id, status) =>
        val maps = status.withMapStatuses(_.toSeq.map(Option(_).map(_.mapId)))
        if (maps.nonEmpty && maps.forall(_.isDefined)) Some(id -> maps.flatten) else None
      }.toMap
    }
  }

  /** The two files of one map's output. */
  private final class Output(shuffle: Int, val map: Long) {
    private val disk = SparkEnv.get.blockManager.diskBlockManager
    val dataFile: File = disk.getFile(ShuffleDataBlockId(shuffle, map, 0))
    val indexFile: File = disk.getFile(ShuffleIndexBlockId(shuffle, map, 0))

    def isThere: Boolean = dataFile.isFile && indexFile.isFile
    def content: (Seq[Byte], Seq[Byte]) = (read(dataFile).toSeq, read(indexFile).toSeq)
    def delete(): Unit = Seq(dataFile, indexFile).foreach(f => Files.deleteIfExists(f.toPath))

    def data: Array[Byte] = read(dataFile)
    def data_=(bytes: Array[Byte]): Unit = Files.write(dataFile.toPath, bytes)
    def index: Array[Byte] = read(indexFile)
    def index_=(bytes: Array[Byte]): Unit = Files.write(indexFile.toPath, bytes)

    /** By reduce partition. */
    def blocks: Array[Array[Byte]] = {
      val ends = ByteBuffer.wrap(index)
      val offsets = Array.fill(index.length / 8)(ends.getLong)
      val bytes = data
      offsets.zip(offsets.drop(1)).map { case (from, to) => bytes.slice(from.toInt, to.toInt) }
    }
    def blocks_=(blocks: Array[Array[Byte]]): Unit = {
      val offsets = blocks.scanLeft(0L)(_ + _.length)
      val ends = ByteBuffer.allocate(offsets.length * 8)
      offsets.foreach(ends.putLong)
      data = blocks.flatten.toArray
      index = ends.array
    }

    private def read(file: File): Array[Byte] =
      if (file.isFile) Files.readAllBytes(file.toPath) else Array.emptyByteArray
  }
}
