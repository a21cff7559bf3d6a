package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Left => _,
  Literal => CatalystLiteral,
  Right => _,
  _
}
import org.apache.spark.sql.coffer.proto.plan.Expr
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.SQLConf.MapKeyDedupPolicy
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}

/** Arrays, structs and maps: made, taken apart, searched. */
private[translate] object NestedExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = structs ++ arrays ++ maps ++ Seq(
    entry[GetArrayItem]("`get_array_item`") { (e, scope) =>
      Calls.of("get_array_item", e, e.children, scope, Modes.failing(e.failOnError))
    },
    function[GetMapValue]("get_map_value"),
    entry[ElementAt]("`element_at`; `split_part`") { (e, scope) =>
      (e.left, e.defaultValueOutOfBound) match {
        case (split: StringSplitSQL, Some(CatalystLiteral(empty: UTF8String, _)))
            if empty.numBytes == 0 && !e.failOnError =>
          Calls.of("split_part", e, Seq(split.str, split.delimiter, e.right), scope)
        case _ => elementAt(e, scope)
      }
    },
    entry[Size]("`size`")((e, scope) =>
      flagged("size", e, e.children, e.legacySizeOfNull, scope)),
    entry[KnownNotContainsNull]("its child")((e, scope) => scope.convert(e.child)),
    entry[StringSplit]("`string_split`, `regexp_split`; the pattern must be a literal that " +
      "means the same in Rust's `regex`") { (e, scope) =>
      for {
        split <- plain(e.regex).map(p => ("string_split", Literals.string(p))).orElse(
          PatternExpressions.splitting(e.regex).map(("regexp_split", _)))
        text <- scope.convert(e.str)
        limit <- scope.convert(e.limit)
        call <- Calls.ofConverted(split._1, e, Seq(text, split._2, limit))
      } yield call
    },
    entry[StringToMap]("`string_to_map`; the patterns must be literals that no more than their " +
      "characters match") { (e, scope) =>
      for {
        lastWins <- lastKeyWins(e.dataType)
        between <- plain(e.pairDelim)
        afterKey <- plain(e.keyValueDelim)
        text <- scope.convert(e.text)
        patterns = Seq(between, afterKey).map(Literals.string)
        call <- Calls.ofConverted("string_to_map", e, Seq(lastWins, text) ++ patterns)
      } yield call
    })

  private def elementAt(e: ElementAt, scope: Scope): Result[Expr] =
    if (e.defaultValueOutOfBound.isDefined) refuse("a default for what is out of bounds")
    else Calls.of("element_at", e, e.children, scope, Modes.failing(e.failOnError))

  private def structs = Seq(
    entry[CreateNamedStruct]("`create_named_struct`")((e, scope) =>
      Calls.of("create_named_struct", e, e.valExprs, scope)),
    entry[GetArrayStructFields]("`get_array_struct_fields`") { (e, scope) =>
      for {
        child <- scope.convert(e.child)
        ordinal <- Literals.expr(CatalystLiteral(e.ordinal))
        call <- Calls.ofConverted("get_array_struct_fields", e, Seq(child, ordinal))
      } yield call
    })

  private def arrays = Seq(
    function[CreateArray]("create_array"),
    function[Slice]("slice"),
    function[Flatten]("flatten"),
    function[ArrayRepeat]("array_repeat"),
    entry[ArrayInsert]("`array_insert`") { (e, scope) =>
      flagged("array_insert", e, e.children, e.legacyNegativeIndex, scope)
    },
    entry[ArraysZip]("`arrays_zip`")((e, scope) => Calls.of("arrays_zip", e, e.children, scope)),
    function[ArrayJoin]("array_join"),
    function[ArrayContains]("array_contains"),
    function[ArrayPosition]("array_position"),
    function[ArrayRemove]("array_remove"),
    function[ArraysOverlap]("arrays_overlap"),
    function[ArrayMin]("array_min"),
    function[ArrayMax]("array_max"),
    entry[SortArray]("`sort_array`") { (e, scope) =>
      // Java's sort of unboxed numbers holds −0.0 less than 0.0.
      val unboxed = e.base.dataType match {
        case ArrayType(FloatType | DoubleType, containsNull) => !containsNull
        case _ => false
      }
      e.ascendingOrder match {
        case CatalystLiteral(_: Boolean, BooleanType) =>
          flagged("sort_array", e, e.children, unboxed, scope)
        case _ => refuse("an order that is not a literal")
      }
    },
    function[ArrayDistinct]("array_distinct"),
    function[ArrayUnion]("array_union"),
    function[ArrayIntersect]("array_intersect"),
    function[ArrayExcept]("array_except"),
    entry[Sequence]("`sequence` of integers, or of dates by days and months; a step of dates " +
      "must be a literal")((e, scope) => sequence(e, scope)))

  private def maps = Seq(
    makesMap[CreateMap]("create_map"),
    makesMap[MapFromArrays]("map_from_arrays"),
    makesMap[MapFromEntries]("map_from_entries"),
    makesMap[MapConcat]("map_concat"),
    function[MapKeys]("map_keys"),
    function[MapValues]("map_values"),
    function[MapEntries]("map_entries"),
    function[MapSort]("map_sort"))

  /** Calls with one more argument: a literal that is true or false. */
  private def flagged(
      name: String,
      expr: Expression,
      children: Seq[Expression],
      flag: Boolean,
      scope: Scope): Result[Expr] =
    for {
      args <- traverse(children)(scope.convert)
      last <- Literals.expr(CatalystLiteral(flag))
      call <- Calls.ofConverted(name, expr, args :+ last)
    } yield call

  private def makesMap[E <: Expression](name: String)(implicit
      tag: scala.reflect.ClassTag[E]): ExpressionEntry =
    entry[E](s"`$name`") { (e, scope) =>
      for {
        lastWins <- lastKeyWins(e.dataType)
        args <- traverse(e.children)(scope.convert)
        call <- Calls.ofConverted(name, e, lastWins +: args)
      } yield call
    }

  /** What the session does about a key that comes twice: whether the last value wins. */
  private[translate] def lastKeyWins(made: DataType): Result[Expr] = {
    val floats = made match {
      case MapType(FloatType | DoubleType, _, _) => true
      case _ => false
    }
    if (floats && SQLConf.get.getConf(SQLConf.DISABLE_MAP_KEY_NORMALIZATION)) {
      refuse(s"${SQLConf.DISABLE_MAP_KEY_NORMALIZATION.key} is not supported")
    } else {
      val policy = SQLConf.get.getConf(SQLConf.MAP_KEY_DEDUP_POLICY)
      Literals.expr(CatalystLiteral(policy == MapKeyDedupPolicy.LAST_WIN))
    }
  }

  // ---- patterns ---------------------------------------------------------------------------------

  private val regexCharacters = "\\.[]{}()*+?^$|"

  /** The one text that a literal pattern of Java's matches. */
  private def plain(pattern: Expression): Result[String] = pattern match {
    case CatalystLiteral(text: UTF8String, _) =>
      literally(text.toString.toList).map(_.mkString).filter(_.nonEmpty)
        .toRight(Unsupported("regular expressions of Java's dialect are not supported"))
    case _ => refuse("a pattern that is not a literal is not supported")
  }

  private def literally(pattern: List[Char]): Option[List[Char]] = pattern match {
    case Nil => Some(Nil)
    case '\\' :: c :: rest if c < 128 && !c.isLetterOrDigit => literally(rest).map(c :: _)
    case c :: _ if regexCharacters.indexOf(c.toInt) >= 0 => None
    case c :: rest => literally(rest).map(c :: _)
  }

  // ---- sequence ---------------------------------------------------------------------------------

  private def sequence(e: Sequence, scope: Scope): Result[Expr] =
    (e.start.dataType, e.stepOpt) match {
      case (_: IntegralType, _) | (DateType, None) => Calls.of("sequence", e, e.children, scope)
      case (DateType, Some(step)) =>
        for {
          parts <- monthsAndDays(step)
          bounds <- traverse(Seq(e.start, e.stop))(scope.convert)
          by <- traverse(Seq(parts._1, parts._2))(n => Literals.expr(CatalystLiteral(n)))
          call <- Calls.ofConverted("sequence", e, bounds ++ by)
        } yield call
      case (other, _) => refuse(s"a sequence of ${other.sql} is not supported")
    }

  private val microsPerDay = 24L * 60 * 60 * 1000 * 1000

  private def monthsAndDays(step: Expression): Result[(Int, Int)] = step match {
    case CatalystLiteral(i: CalendarInterval, CalendarIntervalType)
        if i.microseconds == 0 && moves(i.months, i.days) => Right((i.months, i.days))
    case CatalystLiteral(months: Int, _: YearMonthIntervalType) if months != 0 => Right((months, 0))
    case CatalystLiteral(micros: Long, _: DayTimeIntervalType)
        if micros != 0 && micros % microsPerDay == 0 => Right((0, (micros / microsPerDay).toInt))
    case CatalystLiteral(_, _) => refuse("a step that is not of whole days or months")
    case _ => refuse("a step that is not a literal")
  }

  /** Up or down, and not by the length that a month is taken to have. */
  private def moves(months: Int, days: Int): Boolean =
    (months >= 0 && days >= 0 || months <= 0 && days <= 0) && (months != 0 || days != 0)
}
