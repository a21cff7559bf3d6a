package org.apache.spark.sql.coffer.exec

import java.util.Base64

import scala.util.control.NonFatal

/**
 * A task that failed inside its engine. What failed is sealed for the client engine; only the
 * driver's side can have it opened.
 */
final class CofferTaskException(
    val code: String,
    val stage: Int,
    val partition: Int,
    val sealedError: String)
    extends RuntimeException(s"[COFFER_TASK] stage $stage, partition $partition: $code " +
      s"{$sealedError}")

object CofferTaskException {
  private val shape =
    ("""\[COFFER_TASK\] stage (\d{1,9}), partition (\d{1,9}): (\w{1,40}) """ +
      """\{([A-Za-z0-9+/=]*)\}""").r.unanchored

  final case class Sealed(code: String, stage: Int, partition: Int, error: Array[Byte]) {
    def exception: CofferTaskException =
      new CofferTaskException(code, stage, partition, Base64.getEncoder.encodeToString(error))
  }

  /**
   * Finds one in a chain of causes. By its text: what an executor sends as an object of this class
   * need not have our fields.
   */
  def find(e: Throwable): Option[Sealed] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(50).flatMap(t =>
      Option(t.getMessage)).flatMap(read).nextOption()

  /** One that is told of in a text. */
  def read(text: String): Option[Sealed] = text match {
    case shape(stage, partition, code, base64) =>
      val error =
        try Base64.getDecoder.decode(base64)
        catch { case NonFatal(_) => Array.emptyByteArray }
      Some(Sealed(code, stage.toInt, partition.toInt, error))
    case _ => None
  }
}
