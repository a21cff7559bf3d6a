package org.apache.spark.sql.coffer.exec

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.{SparkThrowable, SparkThrowableHelper}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.execution.LeafExecNode

/** An engine's words as Spark's exceptions. */
class QueryErrorsSuite extends AnyFunSuite {

  private def thrown(condition: String, message: String): Throwable =
    QueryErrors.of(condition, message, Nothing(), new RuntimeException("task"))

  test("parameters are read from the message, and Spark makes the same message of them") {
    val values = Map("expression" -> "'a <b> (c) $1 \\'", "sourceType" -> "\"STRING\"",
      "targetType" -> "\"INT\"", "value" -> "1.5BD", "precision" -> "3", "scale" -> "2",
      "config" -> "\"spark.sql.ansi.enabled\"", "message" -> "integer overflow",
      "alternative" -> " Use `try_add` instead.", "value1" -> "1S", "symbol" -> "+",
      "value2" -> "2S", "functionName" -> "`try_add`", "limit" -> "5", "ansiConfig" -> "a")
    for (condition <- Seq("CAST_INVALID_INPUT", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW",
        "BINARY_ARITHMETIC_OVERFLOW", "DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO",
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "EXCEED_LIMIT_LENGTH")) {
      val message = SparkThrowableHelper.getMessage(condition, values, "")
      val e = thrown(condition, message)
      assert(e.getMessage == message)
      val spark = e.asInstanceOf[SparkThrowable]
      assert(spark.getCondition == condition && spark.getSqlState.length == 5)
      spark.getMessageParameters.forEach((name, value) => assert(values(name) == value))
    }
  }

  test("Python's classes are those of vanilla Spark") {
    def cast(to: String): Throwable = thrown("CAST_INVALID_INPUT",
      SparkThrowableHelper.getMessage("CAST_INVALID_INPUT",
        Map("expression" -> "'x'",
          "sourceType" -> "\"STRING\"", "targetType" -> s"\"$to\"", "ansiConfig" -> ""), ""))
    assert(cast("INT").isInstanceOf[NumberFormatException])
    assert(cast("TIMESTAMP_NTZ").isInstanceOf[java.time.DateTimeException])
    assert(cast("DATE").isInstanceOf[java.time.DateTimeException])
    assert(cast("BOOLEAN").isInstanceOf[org.apache.spark.SparkRuntimeException])
  }

  test("what is not Spark's message keeps condition and text; what is ours has a hint") {
    val other = thrown("DIVIDE_BY_ZERO", "something else")
    assert(other.getMessage == "[DIVIDE_BY_ZERO] something else")
    assert(other.asInstanceOf[SparkThrowable].getCondition == "DIVIDE_BY_ZERO")
    thrown("COFFER_MEMORY", "[COFFER_MEMORY] no memory is left") match {
      case e: CofferException =>
        assert(e.getMessage.startsWith("[COFFER_MEMORY] no memory is left\nhint: give each"))
      case e => fail(e)
    }
  }

  test("what was opened is known as such, and an executor's error is not") {
    val task = new CofferTaskException("failed", 1, 0, "")
    val made = QueryErrors.of("COFFER_MEMORY", "no memory is left", Nothing(), task)
    assert(QueryErrors.isOpened(made) && !QueryErrors.isOpened(task))
    assert(!QueryErrors.isOpened(new RuntimeException(task)))
    // Of several failed stages Spark throws one with the others suppressed.
    val several = new RuntimeException("several stages failed", task)
    several.addSuppressed(task)
    assert(!QueryErrors.isOpened(several))
  }

  test("a refusal of many reasons has five lines and all of them") {
    val reasons = (1 to 9).map(i => s"reason $i")
    val message = CofferException.refusal(reasons).getMessage
    assert(message.linesIterator.size == 5 && reasons.forall(message.contains))
  }
}

private case class Nothing() extends LeafExecNode {
  override def output: Seq[Attribute] = Nil
  override protected def doExecute(): RDD[InternalRow] = throw new UnsupportedOperationException
}
