package org.apache.spark.sql.coffer.exec

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream}

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.arrow.vector.{BaseFixedWidthVector, DecimalVector, ValueVector}
import org.apache.arrow.vector.ipc.ArrowStreamReader

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.execution.arrow.{ArrowBatchStreamWriter, ArrowConverters}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{CalendarIntervalType, Decimal}
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnarBatch, ColumnVector}

/**
 * The client engine's Arrow stream as Spark's rows, and the other way round for rows that never
 * left the driver.
 */
object ArrowRows {

  /** Copies of the rows, in order, as [[batches]] are read. */
  def of(
      chunks: Iterator[Array[Byte]],
      output: Seq[Attribute],
      close: () => Unit): Closing[InternalRow] = {
    val projection = UnsafeProjection.create(output.map(_.dataType).toArray)
    val all = batches(chunks, output, close)
    def copies(batch: ColumnarBatch): Iterator[InternalRow] =
      batch.rowIterator().asScala.map(row => projection(row).copy())
    val rows = Closing.chain(all.map(copies))
    Closing(rows) {
      // A batch's vectors are no more when the reader is closed.
      rows.close()
      all.close()
    }
  }

  /**
   * The stream's batches, each valid until the next one is asked for. Read lazily; all are freed at
   * the end, or when they are closed, by whoever leaves before it.
   */
  def batches(
      chunks: Iterator[Array[Byte]],
      output: Seq[Attribute],
      close: () => Unit): Closing[ColumnarBatch] = {
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
    def nextBatch(): Option[ColumnarBatch] =
      try
        if (open && reader.loadNextBatch()) {
          val root = reader.getVectorSchemaRoot
          val vectors = root.getFieldVectors.asScala
          if (vectors.size != output.size) throw new CofferException(
            "COFFER_CLIENT_PROTOCOL",
            s"the result came with ${vectors.size} of ${output.size} columns",
            "use the client engine and the jar of one build")
          val columns = vectors.map[ColumnVector] {
            case v: DecimalVector if v.getPrecision <= Decimal.MAX_LONG_DIGITS =>
              new NarrowDecimals(v)
            case v => new Lent(v)
          }.toArray
          Some(new ColumnarBatch(columns, root.getRowCount))
        } else {
          finish()
          None
        }
      catch {
        case e: Throwable =>
          finish()
          throw e
      }
    Closing(Iterator.continually(nextBatch()).takeWhile(_.isDefined).map(_.get))(finish())
  }

  /** Rows that are in this process anyway, as batches. */
  def batched(
      rows: Iterator[InternalRow],
      output: Seq[Attribute],
      conf: SQLConf): Closing[ColumnarBatch] = {
    val chunks = stream(rows, output, conf)
    batches(chunks, output, () => chunks.close())
  }

  /** Of a batch of [[batches]], about as many bytes as Spark's rows of it would be. */
  def bytes(batch: ColumnarBatch): Long = {
    val columns = (0 until batch.numCols).map(batch.column).collect { case c: ArrowColumnVector =>
      c.getValueVector
    }
    val further =
      columns.filterNot(_.isInstanceOf[BaseFixedWidthVector]).map(_.getBufferSize.toLong)
    batch.numRows * (8L + 8L * batch.numCols) + further.sum
  }

  /** Whether Arrow has a form for each row of these columns. Its intervals end before Spark's. */
  def hold(output: Seq[Attribute]): Boolean =
    !output.exists(_.dataType.existsRecursively(_ == CalendarIntervalType)) &&
      Try(ArrowUtils.toArrowSchema(DataTypeUtils.fromAttributes(output), "UTC", false, false))
        .isSuccess

  /**
   * Rows that are in this process anyway, as one Arrow IPC stream, a chunk for each batch. It
   * closes them where it ends, early too.
   */
  def stream(
      rows: Iterator[InternalRow],
      output: Seq[Attribute],
      conf: SQLConf): Closing[Array[Byte]] = {
    val schema = DataTypeUtils.fromAttributes(output)
    val out = new ByteArrayOutputStream()
    val zone = conf.sessionLocalTimeZone
    val writer = new ArrowBatchStreamWriter(schema, out, zone, false, false)
    val batches = ArrowConverters.toBatchIterator(rows, schema, conf.arrowMaxRecordsPerBatch, zone,
      false, false, null)
    def written(): Array[Byte] = {
      val chunk = out.toByteArray
      out.reset()
      chunk
    }
    var open = true
    def finish(): Unit = if (open) {
      open = false
      try batches.close()
      finally Closing.end(rows)
    }
    new Closing[Array[Byte]] {
      override def hasNext: Boolean = open
      override def next(): Array[Byte] =
        try {
          if (batches.hasNext) writer.writeBatches(Iterator.single(batches.next()))
          else {
            writer.end()
            finish()
          }
          written()
        } catch {
          case e: Throwable =>
            finish()
            throw e
        }
      override def close(): Unit = finish()
    }
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

  /**
   * A vector that is its reader's, which fills it with the next batch. Spark's operators close
   * those of each batch, and a struct's would then have lost its fields.
   */
  private class Lent(of: ValueVector) extends ArrowColumnVector(of) {
    override def close(): Unit = ()
  }

  /** Decimals that are whole numbers of 64 bits, without a `BigDecimal` for each of them. */
  private final class NarrowDecimals(of: DecimalVector) extends Lent(of) {
    private val bytes = of.getDataBuffer

    override def getDecimal(row: Int, precision: Int, scale: Int): Decimal =
      if (isNullAt(row)) null
      else if (of.getScale != scale) super.getDecimal(row, precision, scale)
      else Decimal.createUnsafe(
        bytes.getLong(row.toLong * DecimalVector.TYPE_WIDTH),
        precision,
        scale)
  }

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
