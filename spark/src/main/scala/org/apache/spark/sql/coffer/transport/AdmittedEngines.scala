package org.apache.spark.sql.coffer.transport

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.coffer.proto.wire.{Admitted, EngineEvidence}

/**
 * An engine that the client engine has admitted, by its evidence.
 *
 * @param kind "simulated", "sgx", "tdx", "sev-snp" or "tpm", or several of them as "tdx+tpm"
 * @param first when it was admitted, in milliseconds since 1970
 * @param last when it proved itself last
 */
final case class AdmittedEngine(
    id: String,
    kind: String,
    version: String,
    simulated: Boolean,
    first: Long,
    last: Long)

/** The engines that were admitted last, for people to look at: nothing is decided by them. */
private[transport] final class AdmittedEngines {
  private val byId = mutable.LinkedHashMap.empty[String, AdmittedEngine]
  private var count = 0L

  /** How often one was. */
  def admissions: Long = synchronized(count)

  def admitted(evidence: EngineEvidence, verdict: Admitted): Unit = synchronized {
    count += 1
    val now = System.currentTimeMillis
    val id = verdict.getEngineId
    val first = byId.remove(id).fold(now)(_.first)
    byId.put(id,
      AdmittedEngine(id, AdmittedEngines.kinds(evidence), evidence.getEngineVersion,
        verdict.getSimulated, first, now))
    if (byId.size > AdmittedEngines.MOST) byId.remove(byId.head._1)
  }

  def last: Seq[AdmittedEngine] = synchronized(byId.values.toVector.reverse)
}

private[transport] object AdmittedEngines {
  private val MOST = 1000

  /** The kinds that an engine says its evidence is of, "tdx+tpm". */
  def kinds(evidence: EngineEvidence): String =
    (evidence.getKind +: evidence.getFurtherList.asScala.map(_.getKind).toSeq).mkString("+")
}
