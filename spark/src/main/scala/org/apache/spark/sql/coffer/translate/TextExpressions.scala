package org.apache.spark.sql.coffer.translate

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{
  Left => _,
  Literal => CatalystLiteral,
  Right => _,
  _
}
import org.apache.spark.sql.coffer.proto.plan.EvalMode
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Texts that have a form: JSON, masks, numbers by a picture, Java's formats. */
private[translate] object TextExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    function[GetJsonObject]("get_json_object"),
    entry[JsonToStructs](
      "`from_json` of a struct of booleans, whole numbers, floats and strings, " +
        "without options") { (e, scope) =>
      JsonExpressions.read(e).flatMap(_ => Calls.of("from_json", e, e.children, scope))
    },
    entry[Mask]("`mask`, with the classes of characters that this JVM knows") { (e, scope) =>
      val chars = e.children.tail.map(_.eval().asInstanceOf[UTF8String])
      if (chars.exists(c => c != null && c.toString.length > 1))
        refuse("a character outside of the first plane is not supported")
      else
        for {
          text <- scope.convert(e.input)
          by <- traverse(chars)(c => Literals.expr(CatalystLiteral(c, StringType)))
          (starts, kinds) = classes
          call <- Calls.ofConverted("mask", e,
            Seq(text, Literals.string(starts), Literals.string(kinds)) ++ by)
        } yield call
    },
    toNumber[ToNumber](EvalMode.ANSI),
    toNumber[TryToNumber](EvalMode.LEGACY),
    entry[FormatString]("`format_string`; the format must be a literal of the conversions s, b, " +
      "d, x, X, o and f") { (e, scope) =>
      e.children match {
        case CatalystLiteral(null, _) +: _ => Calls.of("format_string", e, e.children, scope)
        case CatalystLiteral(format: UTF8String, _) +: args =>
          if (printable(format.toString, args.map(_.dataType)))
            Calls.of("format_string", e, e.children, scope)
          else refuse("this format is not supported")
        case _ => refuse("a format that is not a literal is not supported")
      }
    })

  private def toNumber[E <: ToNumberBase: scala.reflect.ClassTag](mode: EvalMode) =
    entry[E]("`to_number`") { (e, scope) =>
      val format = e.children(1).eval().asInstanceOf[UTF8String]
      val upper = if (format == null) null else format.toString.toUpperCase(Locale.ROOT)
      for {
        text <- scope.convert(e.children.head)
        picture <- Literals.expr(CatalystLiteral(UTF8String.fromString(upper), StringType))
        call <- Calls.ofConverted("to_number", e, Seq(text, picture), mode)
      } yield call
    }

  /** The runs of one class among the characters of the first plane, by their first; and classes. */
  private lazy val classes: (String, String) = {
    def kind(c: Int): Char = Character.getType(c) match {
      case Character.UPPERCASE_LETTER => 'U'
      case Character.LOWERCASE_LETTER => 'L'
      case Character.DECIMAL_DIGIT_NUMBER => 'D'
      case _ => 'O'
    }
    val whole = (0 until 0x10000).filterNot(c => Character.isSurrogate(c.toChar))
    val starts =
      whole.indices.filter(i => i == 0 || kind(whole(i)) != kind(whole(i - 1))).map(whole)
    (starts.map(_.toChar).mkString, starts.map(kind).mkString)
  }

  /** The conversions that the engine has, each of a type that Java gives it for. */
  private def printable(format: String, types: Seq[DataType]): Boolean = {
    val spec = "%(\\d+\\$)?([-#+ 0,(]*)(\\d*)(\\.\\d+)?([a-zA-Z%])".r
    val specs = spec.findAllMatchIn(format).toSeq
    val plain = spec.replaceAllIn(format, "")
    val (own, given) = specs.partition(s => "n%".contains(s.group(5)))
    val ordinary = given.filter(_.group(1) == null)
    // Which digits a float has is this JVM's; of versions 19 and 20, Formatter had the older ones.
    val floats = !(19 to 20).contains(Runtime.version.feature)
    !plain.contains("%") && own.forall(_.matched.length == 2) && given.forall { s =>
      val place =
        if (s.group(1) == null) ordinary.indexWhere(_ eq s)
        else s.group(1).dropRight(1).toIntOption.fold(-1)(_ - 1)
      val of = types.lift(place)
      val (flags, padded) = (s.group(2), s.group(3).nonEmpty)
      val whole = of.exists {
        case _: IntegralType | DateType | TimestampType | TimestampNTZType => true
        case _ => false
      }
      val float = of.exists(t => t == FloatType || t == DoubleType) && floats
      val text = of.exists(t => t == BooleanType || t.isInstanceOf[StringType])
      val (kind, precise) = s.group(5) match {
        case "s" | "b" => ((whole || float || text) && flags.forall(_ == '-'), true)
        case "d" => (whole && !flags.contains('#'), false)
        case "f" => (float && !flags.contains('#'), true)
        case "x" | "X" | "o" => (whole && flags.forall("-0#".contains(_)), false)
        case _ => (false, false)
      }
      kind && (precise || s.group(4) == null) && flags.distinct.length == flags.length &&
      !(flags.contains('-') && flags.contains('0')) &&
      !(flags.contains('+') && flags.contains(' ')) &&
      (padded || !flags.exists("-0".contains(_))) &&
      Seq(s.group(3), Option(s.group(4)).fold("")(_.drop(1))).forall(_.length <= 3)
    }
  }
}
