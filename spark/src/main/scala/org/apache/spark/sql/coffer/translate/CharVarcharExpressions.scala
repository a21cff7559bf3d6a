package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.util.CharVarcharCodegenUtils
import org.apache.spark.sql.coffer.proto.plan.Expr
import org.apache.spark.sql.coffer.versions.{CharOf, VarcharOf}
import org.apache.spark.sql.types.{CharType, DataType, StringType, VarcharType}
import org.apache.spark.unsafe.types.UTF8String

/** Lengths of CHAR and VARCHAR, where something is cast to them. */
private[translate] object CharVarcharExpressions {

  /**
   * A text as a value of the type that something is cast to: with
   * `spark.sql.preserveCharVarcharTypeInfo` casts check lengths too.
   */
  def checked(text: Expr, to: Expression, scope: Scope): Result[Expr] = to.dataType match {
    case CharOf(length) => checked("char_type_write_side_check", text, length, to, scope)
    case VarcharOf(length) => checked("varchar_type_write_side_check", text, length, to, scope)
    case _ => Right(text)
  }

  private def checked(
      name: String,
      text: Expr,
      length: Int,
      to: Expression,
      scope: Scope): Result[Expr] =
    scope.convert(Literal(length)).flatMap(limit => Calls.ofConverted(name, to, Seq(text, limit)))
}

/** Spark's calls for CHAR and VARCHAR. */
object CharVarchar {
  val READ = "readSidePadding"

  def isOne(e: StaticInvoke): Boolean = e.staticObject == classOf[CharVarcharCodegenUtils]

  /**
   * Bounds of a CHAR column, from what it is compared with once it is padded: a scan can skip row
   * groups and pages by them, which it cannot by the padded values. Where the padded value is the
   * text, the stored one is that without some of the spaces at its end.
   */
  def bounds(conjunct: Expression): Seq[Expression] = conjunct match {
    case EqualTo(Read(a), Text(text)) => between(a, Seq(text))
    case EqualTo(Text(text), Read(a)) => between(a, Seq(text))
    case In(Read(a), list) =>
      val texts = list.collect { case Text(text) => text }
      if (texts.size == list.size) between(a, texts) else Nil
    case InSet(Read(a), set) => between(a, set.toSeq.collect { case text: UTF8String => text })
    case _ => Nil
  }

  private def between(a: Attribute, texts: Seq[UTF8String]): Seq[Expression] =
    if (texts.isEmpty) Nil
    else Seq(GreaterThanOrEqual(a, Literal(texts.map(_.trimRight).min, StringType)),
      LessThanOrEqual(a, Literal(texts.max, StringType)))

  /** A column as it is read, and to how many characters. */
  object Padded {
    def unapply(e: Expression): Option[(Attribute, Int)] = e match {
      case s: StaticInvoke if isOne(s) && s.functionName == READ =>
        s.arguments match {
          case Seq(a: Attribute, Literal(length: Int, _)) => Some((a, length))
          case _ => None
        }
      case _ => None
    }
  }

  private object Read {
    def unapply(e: Expression): Option[Attribute] = Padded.unapply(e).map(_._1)
  }

  private object Text {
    def unapply(e: Expression): Option[UTF8String] = e match {
      case Literal(text: UTF8String, _: StringType) => Some(text)
      case _ => None
    }
  }

  /** Whether a column of the type is more than a string. */
  def is(dataType: DataType): Boolean = dataType.isInstanceOf[CharType] ||
    dataType.isInstanceOf[VarcharType]
}
