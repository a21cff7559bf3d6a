package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Left => _,
  Literal => CatalystLiteral,
  Right => _,
  _
}
import org.apache.spark.sql.catalyst.util.MapData
import org.apache.spark.sql.coffer.proto.plan.{Call, DataType, Expr, TypeId}
import org.apache.spark.sql.types.{IntegerType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** Strings as UTF-8 in code point order. */
private[translate] object StringExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    function[StartsWith]("starts_with"),
    function[EndsWith]("ends_with"),
    function[Contains]("contains"),
    function[Upper]("upper"),
    function[Lower]("lower"),
    function[Length]("length"),
    function[OctetLength]("octet_length"),
    function[BitLength]("bit_length"),
    function[Substring]("substring"),
    function[Concat]("concat"),
    function[ConcatWs]("concat_ws"),
    function[StringTrim]("string_trim"),
    function[StringTrimLeft]("string_trim_left"),
    function[StringTrimRight]("string_trim_right"),
    function[StringReplace]("string_replace"),
    function[StringLPad]("string_lpad"),
    function[StringRPad]("string_rpad"),
    function[StringInstr]("string_instr"),
    function[StringLocate]("string_locate"),
    function[StringRepeat]("string_repeat"),
    function[InitCap]("init_cap"),
    function[Reverse]("reverse"),
    function[StringTranslate]("string_translate"),
    function[SubstringIndex]("substring_index"),
    function[StringSpace]("string_space"),
    function[Ascii]("ascii"),
    function[Chr]("chr"),
    function[SoundEx]("sound_ex"),
    function[Levenshtein]("levenshtein"),
    function[FindInSet]("find_in_set"),
    function[Overlay]("overlay"),
    functionOfChosen[Elt]("elt")(e => Modes.failing(e.failOnError)),
    entry[FormatNumber]("`format_number`; of a number of digits, not of a format") { (e, scope) =>
      if (e.d.dataType == IntegerType) Calls.of("format_number", e, e.children, scope)
      else refuse("Java's formats of numbers are not supported")
    },
    functionBy[UnBase64]("un_base64")(e => Modes.failing(e.failOnError)),
    function[Empty2Null]("empty_to_null"),
    entry[RaiseError]("`raise_error`")((e, scope) => raised(e, scope)),
    entry[Like]("`like` of value, pattern and escape character; the pattern must be a " +
      "literal") { (e, scope) =>
      for {
        _ <- LikePatterns.check(e)
        value <- scope.convert(e.left)
        pattern <- scope.convert(e.right)
        call <-
          Calls.ofConverted("like", e, Seq(value, pattern, Literals.string(e.escapeChar.toString)))
      } yield call
    },
    entry[LikeAll]("`like`s joined by " +
      "`and`")((e, scope) => likes(e.child, e.patterns, scope, "and", negated = false)),
    entry[NotLikeAll]("`like`s negated and joined by " +
      "`and`")((e, scope) => likes(e.child, e.patterns, scope, "and", negated = true)),
    entry[LikeAny]("`like`s joined by " +
      "`or`")((e, scope) => likes(e.child, e.patterns, scope, "or", negated = false)),
    entry[NotLikeAny]("`like`s negated and joined by " +
      "`or`")((e, scope) => likes(e.child, e.patterns, scope, "or", negated = true)))

  /** `value LIKE ALL (…)` and its kin: the same patterns, each on its own, joined by AND or OR. */
  private def likes(
      value: Expression,
      patterns: Seq[UTF8String],
      scope: Scope,
      join: String,
      negated: Boolean): Result[Expr] =
    traverse(patterns) { p =>
      val like = Like(value, CatalystLiteral(p, StringType), '\\')
      scope.convert(if (negated) Not(like) else like)
    }.flatMap { tests =>
      if (tests.isEmpty) refuse("no pattern is given")
      else Right(tests.reduceLeft((l, r) => boolean(join, l, r)))
    }

  /** The error that a query raises by itself: its message. */
  private def raised(e: RaiseError, scope: Scope): Result[Expr] = {
    val message = (e.errorClass, e.errorParms) match {
      case (CatalystLiteral(name: UTF8String, _), CreateMap(Seq(_, text), _))
          if name.toString == "USER_RAISED_EXCEPTION" => Some(text)
      case (CatalystLiteral(name: UTF8String, _), CatalystLiteral(map: MapData, _))
          if name.toString == "USER_RAISED_EXCEPTION" && map.numElements() == 1 =>
        Some(CatalystLiteral(map.valueArray().getUTF8String(0), StringType))
      case _ => None
    }
    message match {
      case Some(text) => Calls.of("raise_error", e, Seq(text), scope)
      case None => refuse("an error class of Spark's is not supported; give a message")
    }
  }

  private def boolean(name: String, left: Expr, right: Expr): Expr = {
    val t = DataType.newBuilder.setId(TypeId.BOOLEAN)
    Expr.newBuilder.setCall(
      Call.newBuilder.setName(name).setType(t).addArgs(left).addArgs(right)).build()
  }
}

/** The engine analyses a pattern once, when the fragment is built. */
private[translate] object LikePatterns {

  def check(like: Like): Result[Unit] = like.right match {
    case CatalystLiteral(null, _) => Right(())
    case CatalystLiteral(pattern: UTF8String, _) =>
      if (escapesWell(pattern.toString, like.escapeChar)) Right(())
      else refuse("the pattern's escape character stands at its end or before a character that " +
        "needs none")
    case _ => refuse("a pattern that is not a literal is not supported")
  }

  /** Spark's rule: the escape character is followed by `_`, `%` or itself. */
  private def escapesWell(pattern: String, escape: Char): Boolean = {
    val next = pattern.indexOf(escape.toInt)
    next < 0 || (next + 1 < pattern.length && {
      val escaped = pattern(next + 1)
      (escaped == '_' || escaped == '%' || escaped == escape) &&
      escapesWell(pattern.drop(next + 2), escape)
    })
  }
}
