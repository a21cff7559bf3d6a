package org.apache.spark.sql.coffer.translate

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  Literal => CatalystLiteral,
  TryEval,
  Unhex
}
import org.apache.spark.sql.catalyst.expressions.json.StructsToJsonEvaluator
import org.apache.spark.sql.catalyst.expressions.objects.{Invoke, StaticInvoke}
import org.apache.spark.sql.catalyst.expressions.url.ParseUrlEvaluator
import org.apache.spark.sql.coffer.proto.plan.{EvalMode, Expr, TypeId}
import org.apache.spark.sql.coffer.versions.{TimeType, ToTimeParser}
import org.apache.spark.sql.types.{ObjectType, StringType}

/** Functions that Spark has as calls of JVM methods: by class and method what the engine has. */
private[translate] object InvokeExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    entry[StaticInvoke]("what the engine has of the methods that Spark's functions call") {
      (e, scope) =>
        val method = s"${e.staticObject.getSimpleName.stripSuffix("$")}.${e.functionName}"
        val how = methods.get(method).orElse {
          if (method.startsWith("DateTimeUtils.")) times.get(e.functionName) else None
        }
        how match {
          case Some(how) if ofSpark(e.staticObject) => how(e, scope)
          case _ => refuse(Refusals.reason(e, None))
        }
    },
    entry[TryEval]("its child, where nothing but a bad value can fail, which is NULL then") {
      (e, scope) =>
        e.child match {
          case u: Unhex => whole(u.child, scope)(Calls.ofConverted("unhex", u, _))
          case s: StaticInvoke if ofSpark(s.staticObject) && s.functionName == "aesDecrypt" =>
            traverse(s.arguments)(scope.convert).flatMap { args =>
              if (args.forall(ofBytes))
                Calls.ofConverted("aes_decrypt", s, args, EvalMode.TRY)
              else refuse("what may fail of a try is not supported")
            }
          case s: StaticInvoke if utf8(s) =>
            whole(s.arguments.head, scope)(a => Right(a.head))
              .flatMap(_ => scope.convert(s))
          case i: Invoke if parsesTime(i) =>
            whole(i.arguments.head, scope)(_ => timeParsed(i, scope, EvalMode.TRY))
          case child if IntervalExpressions.arithmetic(child).isDefined =>
            IntervalExpressions.tried(IntervalExpressions.arithmetic(child).get, child, scope)
          case child => scope.convert(child).flatMap { converted =>
              if (Fallibility.infallible(converted)) Right(converted)
              else refuse("what may fail of a try is not supported")
            }
        }
    },
    entry[Invoke]("`is_valid_utf8`; its child: strings are UTF-8 here; `parse_url`") { (e, scope) =>
      (e.functionName, e.targetObject.dataType) match {
        case ("isValid", _: StringType) => Calls.of("is_valid_utf8", e, Seq(e.targetObject), scope)
        case ("makeValid", _: StringType) => scope.convert(e.targetObject)
        case ("evaluate", _: ObjectType) => evaluated(e, scope)
        case ("parse", _: ObjectType) => timeParsed(e, scope, EvalMode.ANSI)
        case _ => refuse(Refusals.reason(e, None))
      }
    })

  /** What Spark prepares while it plans, as an object that evaluates each row. */
  private def evaluated(e: Invoke, scope: Scope): Result[Expr] = e.targetObject match {
    case CatalystLiteral(url: ParseUrlEvaluator, _) =>
      val mode = Modes.failing(url.failOnError)
      e.arguments.drop(2) match {
        case Nil => Calls.of("parse_url", e, e.arguments, scope, mode)
        case Seq(CatalystLiteral(key, _))
            if key == null || !key.toString.exists("\\.[]{}()*+?^$|".contains(_)) =>
          Calls.of("parse_url", e, e.arguments, scope, mode)
        case _ => refuse("a key that is no literal, or a regular expression")
      }
    case CatalystLiteral(json: StructsToJsonEvaluator, _) =>
      JsonExpressions.generated(e, json, e.arguments.head, scope)
    case _ => refuse(Refusals.reason(e, None))
  }

  private def parsesTime(e: Invoke): Boolean = e.targetObject match {
    case CatalystLiteral(_: ToTimeParser, _) => e.functionName == "parse"
    case _ => false
  }

  /** A text by the casts' form, or by a pattern of hours, minutes and seconds. */
  private def timeParsed(e: Invoke, scope: Scope, mode: EvalMode): Result[Expr] =
    (e.targetObject, e.arguments) match {
      case (CatalystLiteral(ToTimeParser(None), _), Seq(text)) =>
        Calls.of("to_time", e, Seq(text), scope, mode)
      case (CatalystLiteral(ToTimeParser(Some(pattern)), _), Seq(text)) =>
        val letters = "'[^']*'".r.replaceAllIn(pattern, "").filter(_.isLetter)
        if (DateExpressions.readable(pattern) && letters.forall("HhmsSa".contains(_)) &&
          letters.count(_ == 'S') <= TimeType.MICROS_PRECISION)
          Calls.of("to_time", e, Seq(text, CatalystLiteral(pattern)), scope, mode)
        else refuse("this pattern is not supported")
      case _ => refuse(Refusals.reason(e, None))
    }

  /** Whether it is a method that takes or gives a TIME, and the engine has it. */
  def onTimes(e: StaticInvoke): Boolean =
    ofSpark(e.staticObject) && times.contains(e.functionName)

  /** A string's bytes are there in each mode. */
  private def ofBytes(arg: Expr): Boolean =
    if (arg.hasCast && arg.getCast.getTo.getId == TypeId.BINARY) ofBytes(arg.getCast.getChild)
    else Fallibility.infallible(arg)

  private def whole(arg: Expression, scope: Scope)(call: Seq[Expr] => Result[Expr]) =
    scope.convert(arg).flatMap { converted =>
      if (Fallibility.infallible(converted)) call(Seq(converted))
      else refuse("what may fail of a try is not supported")
    }

  /** Strings are UTF-8 here: the encoding cannot fail. */
  private def utf8(e: StaticInvoke): Boolean =
    ofSpark(e.staticObject) && e.functionName == "encode" && (e.arguments.lift(1) match {
      case Some(CatalystLiteral(set, _)) if set != null => set.toString.equalsIgnoreCase("UTF-8")
      case _ => false
    })

  /** Of users, a class may have any name. */
  private def ofSpark(owner: Class[_]): Boolean = owner.getName.startsWith(CATALYST)

  private val CATALYST = "org.apache.spark.sql.catalyst."

  private type How = (StaticInvoke, Scope) => Result[Expr]

  private def call(name: String): How =
    (e, scope) => Calls.of(name, e, e.arguments, scope)

  private val itself: How = (e, scope) => scope.convert(e.arguments.head)

  /** The last argument, a literal, says whether a bad value is an error. */
  private def failing(name: String): How = (e, scope) =>
    e.arguments.last match {
      case CatalystLiteral(fail: Boolean, _) =>
        Calls.of(name, e, e.arguments.init, scope, Modes.failing(fail))
      case _ => refuse("whether it fails is not a literal")
    }

  /** Where no initialization vector is given, Spark draws one: another for each attempt. */
  private val encrypting: How = (e, scope) =>
    (e.arguments(2), e.arguments(4)) match {
      case (CatalystLiteral(mode, _), _) if mode != null && mode.toString.equalsIgnoreCase("ECB") =>
        Calls.of("aes_encrypt", e, e.arguments, scope)
      case (_, CatalystLiteral(iv: Array[Byte], _)) if iv.nonEmpty =>
        Calls.of("aes_encrypt", e, e.arguments, scope)
      case _ => refuse("an initialization vector that Spark draws, or that is no literal")
    }

  private val charsets =
    Set("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16BE", "UTF-16LE", "UTF-16", "UTF-32")

  /** Of value, character set, whether it may be any of Java's, whether bad bytes are replaced. */
  private def charset(name: String): How = (e, scope) =>
    e.arguments.tail match {
      case Seq(CatalystLiteral(set, _), CatalystLiteral(false, _), CatalystLiteral(false, _)) =>
        if (set == null || charsets(set.toString.toUpperCase(Locale.ROOT)))
          Calls.of(name, e, e.arguments, scope)
        else refuse(s"the character set $set is not supported")
      case Seq(CatalystLiteral(_, _), _, _) =>
        refuse("Spark's legacy settings of character sets are not supported")
      case _ => refuse("a character set that is not a literal is not supported")
    }

  /** Of `DateTimeUtils`. */
  private val times: Map[String, How] = Map(
    "getHoursOfTime" -> call("hour_of_time"),
    "getMinutesOfTime" -> call("minute_of_time"),
    "getSecondsOfTime" -> call("second_of_time"),
    "getSecondsOfTimeWithFraction" -> call("second_of_time_with_fraction"),
    "makeTime" -> call("make_time"),
    "timeTrunc" -> call("time_trunc"),
    "timeDiff" -> call("time_diff"),
    "timeAddInterval" -> call("time_add_interval"),
    "subtractTimes" -> call("subtract_times"),
    "makeTimestampNTZ" -> call("timestamp_of_date_and_time"))

  private val methods: Map[String, How] = Map(
    // What Spark's analyzer puts around CHAR and VARCHAR columns where they are read and written.
    s"CharVarcharCodegenUtils.${CharVarchar.READ}" -> call("read_side_padding"),
    "CharVarcharCodegenUtils.charTypeWriteSideCheck" -> call("char_type_write_side_check"),
    "CharVarcharCodegenUtils.varcharTypeWriteSideCheck" -> call("varchar_type_write_side_check"),
    "Base64.encode" -> call("base64"),
    "Encode.encode" -> charset("encode"),
    "StringDecode.decode" -> charset("decode"),
    "UrlCodec.encode" -> call("url_encode"),
    "UrlCodec.decode" -> failing("url_decode"),
    "ExpressionImplUtils.isLuhnNumber" -> call("luhn_check"),
    "ExpressionImplUtils.quote" -> call("quote"),
    "ExpressionImplUtils.validateUTF8String" -> itself,
    "ExpressionImplUtils.tryValidateUTF8String" -> itself,
    "ExpressionImplUtils.aesEncrypt" -> encrypting,
    "ExpressionImplUtils.aesDecrypt" -> call("aes_decrypt"),
    "JsonExpressionUtils.lengthOfJsonArray" -> call("json_array_length"),
    "JsonExpressionUtils.jsonObjectKeys" -> call("json_object_keys"),
    "BitmapExpressionUtils.bitmapBucketNumber" -> call("bitmap_bucket_number"),
    "BitmapExpressionUtils.bitmapBitPosition" -> call("bitmap_bit_position"),
    "BitmapExpressionUtils.bitmapCount" -> call("bitmap_count"))
}
