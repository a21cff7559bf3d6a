package org.apache.spark.sql.coffer.exec

import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.proto.plan.{Hiding => ProtoHiding}
import org.apache.spark.sql.internal.SQLConf

/**
 * What is kept from the host at a cost, beyond values: lengths, and which pages are read. What each
 * hides is in docs/security/sizes.md.
 *
 * @param pad
 *   lengths of frames and streams are padded, so Spark must not plan by truer ones either
 * @param readsAll
 *   what storage is read does not depend on data, so Spark must not skip what has no rows
 */
final case class Hiding(pad: ProtoHiding.Pad, padBytes: Int, readsAll: Boolean) {

  /** None where nothing is hidden. */
  def message: Option[ProtoHiding] =
    if (this == Hiding.nothing) None
    else Some(ProtoHiding.newBuilder.setPad(pad).setPadBytes(padBytes).setReadAll(readsAll).build())

  /** Bytes as Spark may know them to plan by. */
  def size(bytes: Long): Long = pad match {
    case ProtoHiding.Pad.PAD_NONE => math.max(1L, bytes)
    case ProtoHiding.Pad.PAD_FIXED => math.max(1L, (bytes + padBytes - 1) / padBytes) * padBytes
    case _ => if (bytes <= 512) 512 else java.lang.Long.highestOneBit(bytes - 1) << 1
  }

  /** Rows as Spark may know them: with them it drops what is empty. */
  def rows(rows: Long): Option[BigInt] =
    if (readsAll ||
      pad != ProtoHiding.Pad.PAD_NONE) None
    else Some(BigInt(rows))
}

object Hiding {
  private val DEFAULT_BYTES = 64 << 10
  private val LEAST_BYTES = 4 << 10
  private val MOST_BYTES = 16 << 20

  val nothing: Hiding = Hiding(ProtoHiding.Pad.PAD_NONE, 0, readsAll = false)

  def of(conf: SQLConf): Hiding = {
    val pad = conf.getConfString(CofferConf.PAD, "none") match {
      case "none" => ProtoHiding.Pad.PAD_NONE
      case "pow2" => ProtoHiding.Pad.PAD_POW2
      case "fixed" => ProtoHiding.Pad.PAD_FIXED
      case other => throw unknown(CofferConf.PAD, other, "none, pow2 or fixed")
    }
    val readsAll = conf.getConfString(CofferConf.PRUNE, "on") match {
      case "on" => false
      case "off" => true
      case other => throw unknown(CofferConf.PRUNE, other, "on or off")
    }
    Hiding(pad, if (pad == ProtoHiding.Pad.PAD_FIXED) bytes(conf) else 0, readsAll)
  }

  private def bytes(conf: SQLConf): Int = {
    val text = conf.getConfString(CofferConf.PAD_BYTES, DEFAULT_BYTES.toString)
    text.toIntOption.filter(n =>
      n >= LEAST_BYTES && n <= MOST_BYTES &&
        Integer.bitCount(n) == 1).getOrElse {
      throw unknown(CofferConf.PAD_BYTES, text, s"a power of two from $LEAST_BYTES to $MOST_BYTES")
    }
  }

  private def unknown(key: String, value: String, known: String): CofferException =
    new CofferException("COFFER_CONF", s"$key is '$value'", s"set it to $known")
}
