package org.apache.spark.sql.coffer.translate

import scala.util.control.NonFatal

/**
 * Java's regular expressions in the engine's syntax (that of Rust's `regex`): what means the same
 * in both, match by match and group by group. The rest is refused: looking around, references
 * back, possessive quantifiers, word boundaries and Unicode's classes (of which Java has an older
 * table), and repetitions of what may be empty, in which groups differ.
 *
 * A `$` at the end stands for the end or the place before a last line terminator, but not for that
 * between CR and LF; the engine cuts the group `coffer_end` off a match.
 */
private[translate] object JavaPatterns {

  /** The engine's pattern, or none for one that it has no equal of. */
  def translate(pattern: String): Result[String] =
    try {
      java.util.regex.Pattern.compile(pattern)
      Right(new Parser(pattern).whole())
    } catch {
      case Refused(why) =>
        refuse(s"regular expressions of Java's dialect are not supported: $why")
      case NonFatal(_) => refuse("the regular expression is not one of Java's")
    }

  private final case class Refused(why: String) extends RuntimeException

  private val lineEnds = "\\n\\r\\x{85}\\x{2028}\\x{2029}"
  private val end =
    "(?P<coffer_end>(?Rm:$)(?:\\r\\n|[\\r\\n])?|[\\x{85}\\x{2028}\\x{2029}])\\z"

  /** Of repetitions, characters with those written out, groups in groups: less than `regex`'s. */
  private val most = 1000
  private val mostCharacters = 10L * most
  private val deepest = 40

  private val classes = Map(
    'd' -> "0-9",
    'w' -> "A-Za-z0-9_",
    's' -> " \\t\\n\\x0B\\f\\r")

  private val posix = Map(
    "Lower" -> "a-z",
    "Upper" -> "A-Z",
    "ASCII" -> "\\x00-\\x7F",
    "Alpha" -> "A-Za-z",
    "Digit" -> "0-9",
    "Alnum" -> "A-Za-z0-9",
    "XDigit" -> "0-9A-Fa-f",
    "Space" -> " \\t\\n\\x0B\\f\\r",
    "Punct" -> "!-/:-@\\[-`{-~")

  private val controls = Map('t' -> '\t', 'n' -> '\n', 'r' -> '\r', 'f' -> '\f')

  private def literal(c: Int): String =
    if (Character.isLetterOrDigit(c) && c < 128) c.toChar.toString else "\\x{%x}".format(c)

  /** A part of a pattern, whether it may match nothing, its size with repetitions written out. */
  private final case class Part(text: String, empty: Boolean, size: Long)

  private object Part {
    def apply(text: String, empty: Boolean): Part = Part(text, empty, text.length.toLong)
  }

  private final class Parser(source: String) {
    private var at = 0
    private var depth = 0
    private var anyCase = false
    private var dotAll = false

    private def peek: Option[Char] = if (at < source.length) Some(source.charAt(at)) else None
    private def looking(text: String): Boolean = source.startsWith(text, at)
    private def take(text: String): Boolean = {
      val there = looking(text)
      if (there) at += text.length
      there
    }

    private def point(): Int = {
      val c = source.codePointAt(at)
      at += Character.charCount(c)
      if (c >= 0xd800 && c < 0xe000) throw Refused("half a surrogate pair")
      c
    }

    def whole(): String = {
      while (looking("(?i)") || looking("(?s)")) {
        if (take("(?i)")) anyCase = true
        if (take("(?s)")) dotAll = true
      }
      val part = alternatives(top = true)
      if (at < source.length) throw Refused("a parenthesis too many")
      if (part.size > mostCharacters) throw Refused("it is too long with its repetitions")
      part.text
    }

    private def alternatives(top: Boolean): Part = {
      val first = sequence(top)
      val rest =
        Iterator.continually(take("|")).takeWhile(identity).map(_ => sequence(top)).toVector
      val all = first +: rest
      if (rest.nonEmpty && all.exists(_.text.contains("coffer_end"))) {
        throw Refused("`$` in one of several alternatives")
      }
      Part(all.map(_.text).mkString("|"), all.exists(_.empty), all.map(_.size).sum + rest.length)
    }

    private def sequence(top: Boolean): Part = {
      val parts = Vector.newBuilder[Part]
      while (peek.exists(c => c != '|' && c != ')')) parts += quantified(top)
      val all = parts.result()
      Part(all.map(_.text).mkString, all.forall(_.empty), all.map(_.size).sum)
    }

    private def quantified(top: Boolean): Part = {
      val atom = this.atom(top)
      val bounds = peek match {
        case Some('*') => at += 1; Some(("*", true, 1))
        case Some('+') => at += 1; Some(("+", atom.empty, 1))
        case Some('?') => at += 1; Some(("?", true, 1))
        case Some('{') => Some(counted(atom))
        case _ => None
      }
      bounds match {
        case None => atom
        case Some((text, empty, times)) =>
          if (atom.empty) throw Refused("a repetition of what may be empty")
          if (peek.contains('+')) throw Refused("a possessive quantifier")
          val lazily = if (take("?")) "?" else ""
          if (peek.exists(c => "*+?{".indexOf(c.toInt) >= 0)) throw Refused("two quantifiers")
          Part(s"(?:${atom.text})$text$lazily", empty, (atom.size * times).min(Int.MaxValue.toLong))
      }
    }

    /** The quantifier, whether it lets the atom match nothing, and how often the atom may stand. */
    private def counted(atom: Part): (String, Boolean, Int) = {
      val close = source.indexOf('}'.toInt, at)
      val text = source.substring(at, close + 1)
      text match {
        case JavaPatterns.counts(low, _, high)
            if Seq(low, high).forall(n => n == null || n.length < 6) =>
          val numbers = Seq(low, high).filter(n => n != null && n.nonEmpty).map(_.toInt)
          if (numbers.exists(_ > most)) throw Refused(s"more than $most repetitions")
          at = close + 1
          (text, atom.empty || low.toInt == 0, numbers.max.max(1))
        case _ => throw Refused("a quantifier")
      }
    }

    private def atom(top: Boolean): Part = peek match {
      case Some('(') => group()
      case Some('[') => at += 1; Part(charClass(), empty = false)
      case Some('.') =>
        at += 1
        Part(if (dotAll) "(?s:.)" else s"[^$lineEnds]", empty = false)
      case Some('^') => at += 1; Part("\\A", empty = true)
      case Some('$') =>
        at += 1
        if (!top || at < source.length) throw Refused("`$` that is not at the end")
        Part(end, empty = true)
      case Some('\\') => escape()
      case Some('*' | '+' | '?' | '{') => throw Refused("a quantifier of nothing")
      case _ => Part(single(point()), empty = false)
    }

    private def single(c: Int): String =
      if (anyCase && c < 128 && Character.isLetter(c)) {
        s"[${Character.toLowerCase(c).toChar}${Character.toUpperCase(c).toChar}]"
      } else literal(c)

    private def group(): Part = {
      at += 1
      val open =
        if (take("?:")) "(?:"
        else if (looking("?<") && !looking("?<=") && !looking("?<!")) {
          val close = source.indexOf('>'.toInt, at)
          val name = source.substring(at + 2, close)
          at = close + 1
          s"(?P<$name>"
        } else if (looking("?")) throw Refused("what looks around, or sets flags in the middle")
        else "("
      depth += 1
      if (depth > deepest) throw Refused(s"more than $deepest groups in one another")
      val inside = alternatives(top = false)
      depth -= 1
      if (!take(")")) throw Refused("a parenthesis too few")
      Part(s"$open${inside.text})", inside.empty, open.length + inside.size + 1)
    }

    private def escape(): Part = {
      at += 1
      peek match {
        case Some(c) if classes.contains(c) => at += 1; Part(s"[${classes(c)}]", empty = false)
        case Some(c) if c.isUpper && classes.contains(c.toLower) =>
          at += 1
          Part(s"[^${classes(c.toLower)}]", empty = false)
        case Some('p') => at += 1; Part(s"[${named()}]", empty = false)
        case Some('A') => at += 1; Part("\\A", empty = true)
        case Some('z') => at += 1; Part("\\z", empty = true)
        case _ => Part(single(escaped()), empty = false)
      }
    }

    private def named(): String = {
      val close = source.indexOf('}'.toInt, at)
      if (!looking("{") || close < 0) throw Refused("one of Unicode's classes")
      val name = source.substring(at + 1, close)
      at = close + 1
      if (anyCase) throw Refused("a class of letters where case does not matter")
      posix.getOrElse(name, throw Refused("one of Unicode's classes"))
    }

    /** A character behind a backslash. */
    private def escaped(): Int = {
      val c = point()
      def hex(digits: Int): Int = {
        val value = Integer.parseInt(source.substring(at, at + digits), 16)
        at += digits
        if (value >= 0xd800 && value < 0xe000) throw Refused("half a surrogate pair")
        value
      }
      if (controls.contains(c.toChar) && c < 128) controls(c.toChar).toInt
      else if (c == 'x' && !looking("{")) hex(2)
      else if (c == 'u') hex(4)
      else if (c < 128 && Character.isLetterOrDigit(c)) throw Refused("an escape of Java's own")
      else c
    }

    private def charClass(): String = {
      val negated = take("^")
      val items = Vector.newBuilder[String]
      var open = true
      var first = true
      while (open) {
        if (take("]")) {
          if (first) throw Refused("a class that begins with ]")
          open = false
        } else {
          if (looking("[") || looking("&&") || looking("^")) throw Refused("a class within a class")
          items += classItem(first)
          first = false
        }
      }
      s"[${if (negated) "^" else ""}${items.result().mkString}]"
    }

    private def classItem(first: Boolean): String = {
      def shorthand: Option[String] =
        if (peek.contains('\\') && at + 1 < source.length) {
          val c = source.charAt(at + 1)
          if (classes.contains(c)) { at += 2; Some(classes(c)) }
          else if (c == 'p') { at += 2; Some(named()) }
          else if (c.isUpper && classes.contains(c.toLower)) throw Refused("a class within a class")
          else None
        } else None
      shorthand match {
        case Some(members) =>
          if (looking("-") && !looking("-]")) throw Refused("a range from a class")
          members
        case None =>
          val dash = looking("-")
          val from = if (take("\\")) escaped() else point()
          if (dash && !first && !looking("]")) throw Refused("a dash in the middle of a class")
          if (!looking("-") || looking("-]")) member(from, from)
          else {
            at += 1
            if (looking("\\d") || looking("\\w") || looking("\\s") || looking("[")) {
              throw Refused("a range to a class")
            }
            member(from, if (take("\\")) escaped() else point())
          }
      }
    }

    private def member(from: Int, to: Int): String = {
      val own = if (from == to) literal(from) else s"${literal(from)}-${literal(to)}"
      if (!anyCase) own
      else {
        // ASCII's other case of what the range has of ASCII's letters.
        val lower = (from.max('a'.toInt), to.min('z'.toInt))
        val upper = (from.max('A'.toInt), to.min('Z'.toInt))
        val others = Seq((lower, -32), (upper, 32)).collect {
          case ((low, high), shift) if low <= high =>
            s"${literal(low + shift)}-${literal(high + shift)}"
        }
        own + others.mkString
      }
    }
  }

  private val counts = "\\{([0-9]+)(,([0-9]*))?\\}".r
}
