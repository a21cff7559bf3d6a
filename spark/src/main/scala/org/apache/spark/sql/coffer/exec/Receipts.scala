package org.apache.spark.sql.coffer.exec

import java.io.IOException
import java.nio.file.{Files, Path, Paths, StandardOpenOption}
import java.nio.file.attribute.PosixFilePermissions
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.internal.SQLConf

/**
 * Receipts of queries, as files in a folder of this machine: signed by the client engine, one for
 * each action over a sealed query. A query whose receipt cannot be written fails.
 */
private[exec] final class Receipts(folder: Path) extends Logging {

  def write(query: CofferQuery): Unit = {
    val bytes = query.client.makeReceipt(query.session, Receipts.driverOperators)
    val session = query.session.toByteArray.map(b => f"$b%02x").mkString
    val file = folder.resolve(s"$session-${Receipts.numbers.incrementAndGet()}.json")
    try {
      Files.createDirectories(folder)
      Files.createFile(file, Receipts.owners)
      Files.write(file, bytes.toByteArray, StandardOpenOption.WRITE)
    } catch {
      case e: IOException =>
        throw new CofferException("COFFER_RECEIPT", s"the receipt $file was not written: $e",
          s"give ${CofferConf.RECEIPTS} a folder that can be written to", e)
    }
    logInfo(s"receipt: $file")
  }
}

private[exec] object Receipts {
  private val numbers = new AtomicLong()

  private val owners =
    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))

  def of(conf: SQLConf): Option[Receipts] =
    Option(conf.getConfString(CofferConf.RECEIPTS, "")).filter(_.nonEmpty).map { folder =>
      val path = Paths.get(folder)
      if (!path.isAbsolute) throw new CofferException("COFFER_CONF",
        s"${CofferConf.RECEIPTS} is $folder",
        "set it to the absolute path of a folder of the " +
          "driver's machine")
      new Receipts(path)
    }

  /** What of the query that runs is Spark's own, in this process. */
  private def driverOperators: Seq[String] =
    try {
      val execution = SparkContext.getActive
        .flatMap(sc => Option(sc.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)))
        .flatMap(_.toLongOption)
      execution.flatMap(id => Option(SQLExecution.getQueryExecution(id))).toSeq.flatMap { q =>
        q.executedPlan.collectWithSubqueries { case part: DriverPart => part.operators }.flatten
      }
    } catch { case NonFatal(_) => Nil }
}
