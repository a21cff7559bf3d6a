package org.apache.spark.sql.coffer.exec

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream}

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.ipc.ArrowStreamReader

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.execution.arrow.{ArrowBatchStreamWriter, ArrowConverters}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch, ColumnVector}

/**
 * The client engine's Arrow stream as Spark's rows, and the other way round for rows that never
 * left the driver.
 */
object ArrowRows {

  /**
   * Copies of the rows, in order. Read lazily: batches are freed as they are used up, all of them
   * when `close` is called.
   */
  def of(
      chunks: Iterator[Array[Byte]],
      output: Seq[Attribute],
      close: () => Unit): Iterator[InternalRow] = {
    val allocator = ArrowUtils.rootAllocator.newChildAllocator("coffer-result", 0, Long.MaxValue)
    val reader = new ArrowStreamReader(new ChunkStream(chunks), allocator)
    var open = true
    def finish(): Unit = if (open) {
      open = false
      try reader.close()
      finally {
        allocator.close()
        close()
      }
    }
    val projection = UnsafeProjection.create(output.map(_.dataType).toArray)
    def nextBatch(): Option[Iterator[InternalRow]] =
      try
        if (open && reader.loadNextBatch()) {
          val root = reader.getVectorSchemaRoot
          val vectors = root.getFieldVectors.asScala
          if (vectors.size != output.size) throw new CofferException(
            "COFFER_CLIENT_PROTOCOL",
            s"the result came with ${vectors.size} of ${output.size} columns",
            "use the client engine and the jar of one build")
          val columns = vectors.map(v => new ArrowColumnVector(v): ColumnVector).toArray
          val batch = new ColumnarBatch(columns, root.getRowCount)
          Some(batch.rowIterator().asScala.map(r => projection(r).copy()))
        } else {
          finish()
          None
        }
      catch {
        case e: Throwable =>
          finish()
          throw e
      }
    Iterator.continually(nextBatch()).takeWhile(_.isDefined).flatMap(_.get)
  }

  /** One Arrow IPC stream of rows that are in this process anyway. */
  def stream(
      rows: Iterator[InternalRow],
      output: Seq[Attribute],
      conf: SQLConf): Iterator[Array[Byte]] = {
    val schema = DataTypeUtils.fromAttributes(output)
    val out = new ByteArrayOutputStream()
    val zone = conf.sessionLocalTimeZone
    val writer = new ArrowBatchStreamWriter(schema, out, zone, false, false)
    val batches = ArrowConverters.toBatchIterator(rows, schema, conf.arrowMaxRecordsPerBatch, zone,
      false, false, null)
    try writer.writeBatches(batches)
    finally batches.close()
    writer.end()
    Iterator.single(out.toByteArray)
  }

  /** Some rows each, as whole Arrow IPC streams, for what takes them one by one. */
  def streams(
      rows: Iterator[InternalRow],
      output: Seq[Attribute],
      conf: SQLConf): Iterator[Array[Byte]] with AutoCloseable =
    ArrowConverters.toBatchWithSchemaIterator(rows,
      DataTypeUtils.fromAttributes(output).asNullable, conf.arrowMaxRecordsPerBatch, STREAM, "UTC",
      false, false)

  /** Of one of these, in bytes; a row may be more. */
  private val STREAM = 4L << 20

  private final class ChunkStream(chunks: Iterator[Array[Byte]]) extends InputStream {
    private var current = new ByteArrayInputStream(Array.emptyByteArray)

    private def advance(): Boolean = {
      while (current.available() == 0 &&
        chunks.hasNext) current = new ByteArrayInputStream(chunks.next())
      current.available() > 0
    }

    override def read(): Int = if (advance()) current.read() else -1

    override def read(into: Array[Byte], offset: Int, length: Int): Int =
      if (length == 0) 0 else if (advance()) current.read(into, offset, length) else -1
  }
}
