package org.apache.spark.sql.coffer.plan

import org.apache.spark.sql.catalyst.expressions.{Left => _, Literal => CatalystLiteral, Right => _, _}
import org.apache.spark.sql.coffer.proto.plan.{Call, DataType, Expr, TypeId}
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/** Strings as UTF-8 in code point order. */
private[plan] object StringExpressions extends ExpressionFamily {

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
    entry[Like] { (e, scope) =>
      for {
        value <- scope.convert(e.left)
        pattern <- scope.convert(e.right)
        call <- Calls.ofConverted("like", e, Seq(value, pattern, Literals.string(e.escapeChar.toString)))
      } yield call
    },
    entry[LikeAll]((e, scope) => likes(e.child, e.patterns, scope, "and", negated = false)),
    entry[NotLikeAll]((e, scope) => likes(e.child, e.patterns, scope, "and", negated = true)),
    entry[LikeAny]((e, scope) => likes(e.child, e.patterns, scope, "or", negated = false)),
    entry[NotLikeAny]((e, scope) => likes(e.child, e.patterns, scope, "or", negated = true)))

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

  private def boolean(name: String, left: Expr, right: Expr): Expr = {
    val t = DataType.newBuilder.setId(TypeId.BOOLEAN)
    Expr.newBuilder.setCall(Call.newBuilder.setName(name).setType(t).addArgs(left).addArgs(right)).build()
  }
}
