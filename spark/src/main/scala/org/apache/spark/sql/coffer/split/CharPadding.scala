package org.apache.spark.sql.coffer.split

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.coffer.translate.CharVarchar
import org.apache.spark.sql.coffer.versions.{CharOf, ScanOf}
import org.apache.spark.sql.types.{CharType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Takes away what Spark puts around the CHAR columns of tables with stored columns. Those have all
 * been written padded (a scheme's ciphertexts are of that one spelling), so what pads them once
 * more says nothing, and would keep ciphertexts from being compared.
 */
private[coffer] object CharPadding {

  def strip(query: LogicalPlan): LogicalPlan = {
    val lengths = AttributeMap(query.collect {
      case ScanOf(_, scan: CofferScan, output)
          if scan.table.stored.nonEmpty =>
        val declared = scan.table.schema.fields.collect {
          case f if f.dataType.isInstanceOf[CharType] => f.name -> f.dataType
        }.toMap
        output.flatMap(a => declared.get(a.name).collect { case CharOf(length) => a -> length })
    }.flatten)
    if (lengths.isEmpty) query
    else query.transformAllExpressions {
      case CharVarchar.Padded(a, length) if lengths.get(a).contains(length) => a
    }.transformAllExpressions {
      case EqualTo(Longer(a, length), Text(text)) if lengths.get(a).exists(_ < length) =>
        EqualTo(a, shorter(text, lengths(a)))
      case EqualTo(Text(text), Longer(a, length)) if lengths.get(a).exists(_ < length) =>
        EqualTo(a, shorter(text, lengths(a)))
      case EqualNullSafe(Longer(a, length), Text(text)) if lengths.get(a).exists(_ < length) =>
        EqualNullSafe(a, shorter(text, lengths(a)))
      case EqualNullSafe(Text(text), Longer(a, length)) if lengths.get(a).exists(_ < length) =>
        EqualNullSafe(a, shorter(text, lengths(a)))
      case In(Longer(a, length), Texts(texts)) if lengths.get(a).exists(_ < length) =>
        In(a, texts.map(shorter(_, lengths(a))))
      case InSet(Longer(a, length), set) if lengths.get(a).exists(_ < length) =>
        InSet(a,
          set.map(v =>
            if (v == null) null else shorter(v.asInstanceOf[UTF8String], lengths(a)).value))
    }
  }

  /**
   * What a text is to a column that is padded to `length`, which Spark has padded further to be as
   * long as the text: the same without those spaces, or, if there is more than spaces, itself: no
   * value of the column is so long.
   */
  private def shorter(text: UTF8String, length: Int): Literal = {
    val kept = if (text == null) null else text.substring(0, length)
    val spaces = text != null && text.substring(length, text.numChars).trimRight.numBytes == 0
    Literal(if (spaces) kept else text, StringType)
  }

  private object Longer {
    def unapply(e: Expression): Option[(Attribute, Int)] = e match {
      case StringRPad(a: Attribute, Literal(length: Int, _), Literal(fill: UTF8String, _))
          if fill.toString == " " => Some((a, length))
      case _ => None
    }
  }

  private object Text {
    def unapply(e: Expression): Option[UTF8String] = e match {
      case Literal(text: UTF8String, _: StringType) => Some(text)
      case _ => None
    }
  }

  private object Texts {
    def unapply(list: Seq[Expression]): Option[Seq[UTF8String]] = {
      val texts = list.collect { case Literal(text, _: StringType) =>
        text.asInstanceOf[UTF8String]
      }
      Option.when(texts.size == list.size)(texts)
    }
  }
}
