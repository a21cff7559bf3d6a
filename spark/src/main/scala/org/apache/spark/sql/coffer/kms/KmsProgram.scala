package org.apache.spark.sql.coffer.kms

import java.io.{BufferedReader, BufferedWriter, IOException, InputStreamReader, OutputStreamWriter}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.io.Source

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.parquet.crypto.KeyAccessDeniedException

/**
 * A `coffer kms` process: a line of JSON in, a line of JSON out. It ends with the JVM, by the end
 * of its input.
 */
private[kms] class KmsProgram(command: Seq[String]) {

  private var running: Option[KmsProgram.Pipes] = None

  /** The field `answer` of what the program answers to `{"master": …, operation: argument}`. */
  def ask(operation: String, argument: String, master: String, answer: String): String =
    synchronized {
      val request =
        KmsProgram.JSON.createObjectNode().put("master", master).put(operation, argument).toString
      val pipes = running.getOrElse(start())
      running = Some(pipes)
      val line =
        try pipes.exchange(request)
        catch { case _: IOException => null }
      if (line == null) {
        running = None
        throw new KeyAccessDeniedException(s"coffer kms ended before it answered:\n${pipes.end()}")
      }
      val fields = KmsProgram.JSON.readTree(line)
      val text = (name: String) => Option(fields.get(name)).filter(_.isTextual).map(_.asText)
      text(answer).getOrElse {
        val hint = text("hint").fold("")(hint => s"\nhint: $hint")
        throw new KeyAccessDeniedException(
          text("error").getOrElse("coffer kms answered what is no " +
            "answer") + hint)
      }
    }

  private def start(): KmsProgram.Pipes =
    try new KmsProgram.Pipes(new ProcessBuilder(command: _*).start())
    catch {
      case e: IOException => throw new KeyAccessDeniedException(s"cannot start " +
            s"${command.head}", e)
    }
}

private[kms] object KmsProgram {

  private val JSON = new ObjectMapper()
  private val GRACE_SECONDS = 10L
  // parquet-java makes clients anew every few minutes, and never closes one.
  private val programs = mutable.Map.empty[Seq[String], KmsProgram]

  def of(command: Seq[String]): KmsProgram =
    synchronized(programs.getOrElseUpdate(command, new KmsProgram(command)))

  private class Pipes(process: Process) {
    private val out = new BufferedWriter(new OutputStreamWriter(process.getOutputStream, UTF_8))
    private val in = new BufferedReader(new InputStreamReader(process.getInputStream, UTF_8))

    /** None of an answer is null: so is the end of its output. */
    def exchange(line: String): String = {
      out.write(line)
      out.write('\n')
      out.flush()
      in.readLine()
    }

    /** What it said when it ended. */
    def end(): String = {
      if (!process.waitFor(GRACE_SECONDS, TimeUnit.SECONDS)) process.destroyForcibly()
      Source.fromInputStream(process.getErrorStream, UTF_8.name).mkString.trim
    }
  }
}
