package org.apache.spark.sql.coffer.transport

import com.esotericsoftware.kryo.Kryo

import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.serializer.KryoRegistrator
import org.apache.spark.sql.coffer.common.CofferException

/**
 * Keeps Kryo from reading anything in the driver of a cluster: it makes objects of the classes that
 * a peer names, by no object stream, so the filter of JEP 290 never sees them. `Encoders.kryo`
 * comes to it whatever `spark.serializer` says. To demand registration is not enough: Spark
 * registers closures, and queues and trees with comparators, for everyone. Executors are not held
 * back: what they read is the host's affair.
 */
final class DriverKryo extends KryoRegistrator {
  override def registerClasses(kryo: Kryo): Unit =
    if (Option(SparkEnv.get).forall(_.executorId == SparkContext.DRIVER_IDENTIFIER))
      throw new CofferException(
        "COFFER_SERIALIZER",
        "Kryo would make objects of what executors send, past the driver's deserialisation " +
          "allow-list",
        "use an encoder of columns (a case class, Encoders.bean), or Encoders.javaSerialization")
}

private[coffer] object DriverKryo {
  private val REGISTRATORS = "spark.kryo.registrator"

  /** Kryo asks each registrator that is named whenever it is made. */
  def guard(conf: SparkConf): Unit = {
    val ours = classOf[DriverKryo].getName
    val named = conf.get(REGISTRATORS, "").split(',').map(_.trim).filter(_.nonEmpty)
    if (!named.contains(ours)) conf.set(REGISTRATORS, (ours +: named).mkString(","))
  }
}
