package org.apache.spark.sql.coffer.fake

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.coffer.advise.Protections

/**
 * The table of the protections, as `coffer reference --protections --json` prints it: a test of the
 * command line fails when it is stale.
 */
object PrintedProtections {
  val text: String = {
    val in = getClass.getResourceAsStream("/protections.json")
    try new String(in.readAllBytes(), UTF_8)
    finally in.close()
  }

  val all: Protections = Protections.parse(text)
}
