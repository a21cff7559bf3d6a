package org.apache.spark.sql.coffer.split

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.{Literal => CatalystLiteral}
import org.apache.spark.sql.coffer.common.{Client, CofferException}
import org.apache.spark.sql.coffer.proto.plan.{Literal => ProtoLiteral, TypeId}
import org.apache.spark.sql.coffer.proto.wire.{EncryptLiterals, LiteralsEncrypted}
import org.apache.spark.sql.coffer.translate.Literals
import org.apache.spark.sql.types.{BinaryType, LongType}

/** What a literal is among a column's ciphertexts. */
private[split] sealed trait CipherLiteral

private[split] object CipherLiteral {

  /** `cut`: it is longer than the prefix that is stored. */
  final case class Within(literal: CatalystLiteral, cut: Boolean) extends CipherLiteral

  /** Less, or greater, than every value that the column's domain allows. */
  case object Below extends CipherLiteral
  case object Above extends CipherLiteral
}

/**
 * Literals are encrypted by the client engine, for the column that they meet: no key comes into
 * this JVM.
 */
private[split] object CipherLiterals {

  def of(encoding: StoredEncoding, literals: Seq[CatalystLiteral]): Seq[CipherLiteral] =
    if (encoding.table.imagined) literals.map(_ => standIn(encoding))
    else encrypted(encoding, literals)

  /** Of a table that is not there no literal meets a value. */
  private def standIn(encoding: StoredEncoding): CipherLiteral = encoding.stored.dataType match {
    case LongType => CipherLiteral.Within(CatalystLiteral(0L, LongType), cut = true)
    case _ => CipherLiteral.Within(CatalystLiteral(Array.emptyByteArray, BinaryType), cut = true)
  }

  private def encrypted(
      encoding: StoredEncoding,
      literals: Seq[CatalystLiteral]): Seq[CipherLiteral] = {
    val request = EncryptLiterals.newBuilder.setHandle(encoding.table.info.getHandle).setStored(
      encoding.stored.name)
    literals.foreach { l =>
      Literals.of(l.value, l.dataType) match {
        case Right(literal) => request.addLiterals(literal)
        case Left(unsupported) => throw CofferException.refusal(Seq(unsupported.message))
      }
    }
    val answer = Client.get.encryptLiterals(request.build()).getCiphertextsList.asScala.toSeq
    if (answer.size != literals.size) throw strange
    answer.map(ciphertext)
  }

  private def ciphertext(c: LiteralsEncrypted.Ciphertext): CipherLiteral = c.getKindCase match {
    case LiteralsEncrypted.Ciphertext.KindCase.LITERAL =>
      CipherLiteral.Within(literal(c.getLiteral), c.getCut)
    case LiteralsEncrypted.Ciphertext.KindCase.BELOW => CipherLiteral.Below
    case LiteralsEncrypted.Ciphertext.KindCase.ABOVE => CipherLiteral.Above
    case LiteralsEncrypted.Ciphertext.KindCase.KIND_NOT_SET => throw strange
  }

  private def literal(l: ProtoLiteral): CatalystLiteral = l.getType.getId match {
    case TypeId.LONG => CatalystLiteral(l.getInt, LongType)
    case TypeId.BINARY => CatalystLiteral(l.getBinary.toByteArray, BinaryType)
    case _ => throw strange
  }

  private def strange = new CofferException(
    "COFFER_CLIENT_PROTOCOL",
    "the client engine encrypted a literal in an unknown form",
    "use the client engine and the jar of one build")
}
