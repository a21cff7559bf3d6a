package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Left => _,
  Literal => CatalystLiteral,
  Right => _,
  _
}
import org.apache.spark.sql.coffer.proto.plan.Expr
import org.apache.spark.sql.types.{IntegerType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** Regular expressions: literals, in the engine's syntax. */
private[translate] object PatternExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    entry[RLike](s"`regexp_like`; $which") { (e, scope) =>
      matching("regexp_like", e, e.left, e.right, Nil, scope)
    },
    entry[RegExpExtract](s"`regexp_extract`; $which") { (e, scope) =>
      matching("regexp_extract", e, e.subject, e.regexp, Seq(e.idx), scope)
    },
    entry[RegExpExtractAll](s"`regexp_extract_all`; $which") { (e, scope) =>
      matching("regexp_extract_all", e, e.subject, e.regexp, Seq(e.idx), scope)
    },
    entry[RegExpInStr](s"`regexp_instr`; $which") { (e, scope) =>
      e.idx match {
        // Its value does not matter, but that of NULL does.
        case CatalystLiteral(group, _) if group != null =>
          matching("regexp_instr", e, e.subject, e.regexp, Nil, scope)
        case _ => refuse("a group that is not a literal is not supported")
      }
    },
    entry[RegExpReplace](s"`regexp_replace`; $which, and so must the replacement be") {
      (e, scope) => replace(e, scope)
    })

  private val which = "the pattern must be a literal that means the same in Rust's `regex`"

  private def matching(
      name: String,
      e: Expression,
      subject: Expression,
      regexp: Expression,
      more: Seq[Expression],
      scope: Scope): Result[Expr] =
    for {
      pattern <- translated(regexp)
      text <- scope.convert(subject)
      rest <- traverse(more)(scope.convert)
      call <- Calls.ofConverted(name, e, Seq(text, pattern) ++ rest)
    } yield call

  /** The engine's pattern of Java's. */
  private[translate] def translated(regexp: Expression): Result[Expr] = regexp match {
    case CatalystLiteral(null, _) => Literals.expr(CatalystLiteral(null, StringType))
    case CatalystLiteral(text: UTF8String, _) =>
      JavaPatterns.translate(text.toString).map(Literals.string)
    case _ => refuse("a pattern that is not a literal is not supported")
  }

  /** The same of `split`, in which Spark gives a pattern of no characters a meaning of its own. */
  private[translate] def splitting(regexp: Expression): Result[Expr] = regexp match {
    case CatalystLiteral(text: UTF8String, _)
        if text.numBytes > 0 && JavaPatterns.translate(text.toString).contains("") =>
      refuse("a pattern of nothing but flags is not supported")
    case _ => translated(regexp)
  }

  private def replace(e: RegExpReplace, scope: Scope): Result[Expr] =
    (e.rep, e.pos) match {
      case (CatalystLiteral(rep: UTF8String, _), CatalystLiteral(1, IntegerType)) =>
        for {
          parts <- replacement(rep.toString)
          text <- scope.convert(e.subject)
          pattern <- translated(e.regexp)
          by <- Literals.expr(CatalystLiteral(UTF8String.fromString(parts), StringType))
          call <- Calls.ofConverted("regexp_replace", e, Seq(text, pattern, by))
        } yield call
      case (CatalystLiteral(_, _), _) => refuse("a place to begin other than the first")
      case _ => refuse("a replacement that is not a literal is not supported")
    }

  /** Java's replacement text: escapes undone, `$` and one digit as groups of the engine's. */
  private def replacement(text: String): Result[String] = {
    def go(rest: List[Char], done: String): Result[String] = rest match {
      case Nil => Right(done)
      case '\\' :: c :: more => go(more, done + (if (c == '$') "$$" else c.toString))
      case '\\' :: Nil => refuse("a replacement that ends with a backslash")
      case '$' :: d :: more if d.isDigit && d < 128 && !more.headOption.exists(_.isDigit) =>
        go(more, s"$done$${$d}")
      case '$' :: _ => refuse("a replacement with groups of two digits or by name")
      case c :: more => go(more, done + c)
    }
    go(text.toList, "")
  }
}
