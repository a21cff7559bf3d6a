package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.objects.{AssertNotNull, Invoke, StaticInvoke}
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero
import org.apache.spark.sql.coffer.versions.{evalMode, TimestampAddInterval, TimeType}
import org.apache.spark.sql.execution.ScalarSubquery
import org.apache.spark.sql.types._

/**
 * Types of which an engine's arrays do not tell all: intervals are numbers there, and TIME has its
 * digits in the plan only. So what is done with them is listed: the rest would take them for what
 * they are not.
 */
private[translate] object OpenTypes {

  def holds(dataType: DataType): Boolean = dataType.existsRecursively {
    case _: AnsiIntervalType | _: TimeType => true
    case _ => false
  }

  def holdsInterval(dataType: DataType): Boolean =
    dataType.existsRecursively(_.isInstanceOf[AnsiIntervalType])

  /** The same type with strings for the intervals inside. */
  def textual(dataType: DataType): DataType = dataType match {
    case _: AnsiIntervalType => StringType
    case ArrayType(element, containsNull) => ArrayType(textual(element), containsNull)
    case MapType(key, value, containsNull) => MapType(textual(key), textual(value), containsNull)
    case StructType(fields) => StructType(fields.map(f => f.copy(dataType = textual(f.dataType))))
    case other => other
  }

  /** Whether the engine does with such types what the expression says. */
  def check(e: Expression): Result[Unit] = {
    val open = (e +: e.children).map(_.dataType).filter(holds)
    if (open.isEmpty || admitted(e)) Right(())
    else refuse(s"${e.prettyName} of ${open.last.sql} is not supported")
  }

  def check(function: AggregateFunction): Result[Unit] =
    function.children.map(_.dataType).find(holds) match {
      case Some(of) if !admitted(function) =>
        refuse(s"${function.prettyName} of ${of.sql} is not supported")
      case _ => Right(())
    }

  private def admitted(function: AggregateFunction): Boolean = function match {
    case s: Sum => evalMode(s) != EvalMode.TRY
    case a: Average => a.evalMode != EvalMode.TRY
    case _: Count | _: Min | _: Max | _: First | _: Last | _: MinBy | _: MaxBy | _: CollectList |
        _: CollectSet | _: Mode | _: HyperLogLogPlusPlus | _: PivotFirst => true
    case _ => false
  }

  private def admitted(e: Expression): Boolean = e match {
    case _: Attribute | _: BoundReference | _: Literal | _: Alias | _: NamedLambdaVariable |
        _: ScalarSubquery | _: AssertNotNull | _: KnownNullable | _: KnownNotNull |
        _: KnownFloatingPointNormalized | _: KnownNotContainsNull | _: NormalizeNaNAndZero => true
    // One value or another, compared and chosen.
    case _: EqualTo | _: EqualNullSafe | _: LessThan | _: LessThanOrEqual | _: GreaterThan |
        _: GreaterThanOrEqual | _: IsNull | _: IsNotNull | _: In | _: InSet | _: If | _: Coalesce |
        _: CaseWhen | _: Greatest | _: Least | _: Murmur3Hash | _: XxHash64 => true
    case _: Cast | _: ToPrettyString | _: TryEval | _: LambdaFunction => true
    // Put into nested values, and taken out.
    case _: CreateNamedStruct | _: GetStructField | _: GetArrayStructFields | _: CreateArray |
        _: CreateMap | _: GetArrayItem | _: GetMapValue | _: ElementAt | _: Size | _: Slice |
        _: Flatten | _: ArrayRepeat | _: ArrayContains | _: ArrayPosition | _: ArrayRemove |
        _: ArraysOverlap | _: ArrayMin | _: ArrayMax | _: SortArray | _: ArraySort |
        _: ArrayDistinct | _: ArrayUnion | _: ArrayIntersect | _: ArrayExcept | _: ArrayInsert |
        _: ArraysZip | _: Reverse | _: Concat | _: MapKeys | _: MapValues | _: MapEntries |
        _: MapFromArrays | _: MapFromEntries | _: MapConcat => true
    case _: ArrayTransform | _: ArrayFilter | _: ArrayExists | _: ArrayForAll |
        _: ArrayAggregate | _: ZipWith | _: TransformKeys | _: TransformValues | _: MapFilter |
        _: MapZipWith => true
    // What steps and frames are of.
    case _: Sequence | _: TimestampAddInterval | _: DateAddInterval => true
    case _: Add | _: Subtract | _: UnaryMinus | _: Abs | _: UnaryPositive => true
    case s: StaticInvoke => InvokeExpressions.onTimes(s)
    case i: Invoke => i.functionName == "parse"
    case other => IntervalExpressions.has(other)
  }
}
