package org.apache.spark.sql.coffer.translate

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Complete}
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_DAY
import org.apache.spark.sql.coffer.proto.plan.{Expr, Window}
import org.apache.spark.sql.coffer.versions.{added, TimestampAddInterval}
import org.apache.spark.sql.execution.window.WindowExec
import org.apache.spark.sql.types._

/** The functions of windows, and the frames that they look at. */
private[translate] object WindowCalls {

  def of(w: WindowExpression, name: String, plan: WindowExec, scope: Scope): Result[Window.Call] = {
    val call = Window.Call.newBuilder.setName(name)
    def framed(made: Window.Call.Builder): Result[Window.Call] =
      frame(w, plan, scope).map(f => made.setFrame(f).build())
    w.windowFunction match {
      case a: AggregateExpression if a.isDistinct => refuse("DISTINCT over a window")
      case a: AggregateExpression if a.filter.isDefined => refuse("FILTER over a window")
      case a: AggregateExpression if a.mode == Complete =>
        AggregateOperators.aggregateCall(a, 0, scope).flatMap(f => framed(call.setAggregate(f)))
      case shift: FrameLessOffsetWindowFunction =>
        for {
          input <- scope.convert(shift.input)
          otherwise <- default(shift, scope)
          offset <- int(shift.offset)
        } yield {
          val builder = Window.Shift.newBuilder
            .setInput(input)
            .setOffset(offset)
            .setIgnoreNulls(shift.ignoreNulls)
          otherwise.foreach(builder.setOtherwise)
          call.setShift(builder).build()
        }
      case n: NthValue =>
        for {
          input <- scope.convert(n.input)
          nth <- int(n.offset)
          made <- framed(call.setNthValue(
              Window.NthValue.newBuilder.setInput(input).setNth(nth).setIgnoreNulls(n.ignoreNulls)))
        } yield made
      case NTile(buckets) => int(buckets).map { n =>
          call.setRanking(
            Window.Ranking.newBuilder.setRank(Window.Rank.NTILE).setBuckets(n)).build()
        }
      case other =>
        rank(other).map(r => call.setRanking(Window.Ranking.newBuilder.setRank(r)).build())
    }
  }

  def rank(function: Expression): Result[Window.Rank] = function match {
    case _: RowNumber => Right(Window.Rank.ROW_NUMBER)
    case _: Rank => Right(Window.Rank.RANK)
    case _: DenseRank => Right(Window.Rank.DENSE_RANK)
    case _: PercentRank => Right(Window.Rank.PERCENT_RANK)
    case _: CumeDist => Right(Window.Rank.CUME_DIST)
    case _: PythonFuncExpression =>
      refuse("Python functions would see opened data outside the enclave")
    case other => refuse(s"the window function ${other.prettyName} is not supported")
  }

  private def int(offset: Expression): Result[Int] = constant(offset) match {
    case Right(n: Int) => Right(n)
    case Right(_) => refuse("an offset that is no INT")
    case Left(why) => Left(why)
  }

  private def constant(e: Expression): Result[Any] =
    if (!e.foldable) refuse("an offset that is no constant")
    else Try(e.eval()).fold(_ => refuse("an offset that cannot be computed"), Right(_))

  /** Spark computes a constant default once, and takes it for a value of the input's type. */
  private def default(shift: FrameLessOffsetWindowFunction, scope: Scope): Result[Option[Expr]] =
    shift.default match {
      case null => Right(None)
      case d if d.foldable =>
        constant(d).flatMap {
          case null => Right(None)
          case value => scope.convert(Literal(value, shift.dataType)).map(Some(_))
        }
      case d => scope.convert(d).map(Some(_))
    }

  // ---- frames

  private def frame(w: WindowExpression, plan: WindowExec, scope: Scope): Result[Window.Frame] =
    w.windowSpec.frameSpecification match {
      case SpecifiedWindowFrame(kind, lower, upper) =>
        for {
          l <- bound(kind, lower, plan, scope)
          u <- bound(kind, upper, plan, scope)
        } yield Window.Frame.newBuilder.setLower(l).setUpper(u).build()
      case _ => refuse("its frame should have been resolved while the query was planned")
    }

  private def bound(
      kind: FrameType,
      at: Expression,
      plan: WindowExec,
      scope: Scope): Result[Window.Bound] = {
    val bound = Window.Bound.newBuilder
    (kind, at) match {
      case (_, UnboundedPreceding | UnboundedFollowing) =>
        Right(bound.setUnbounded(Window.Bound.Unbounded.getDefaultInstance).build())
      case (RowFrame, CurrentRow) => Right(bound.setRows(0).build())
      case (RowFrame, offset) => int(offset).map(n => bound.setRows(n).build())
      case (RangeFrame, CurrentRow) =>
        Right(bound.setPeers(Window.Bound.Peers.getDefaultInstance).build())
      case (RangeFrame, offset) =>
        for {
          key <- plan.orderSpec match {
            case Seq(one) => Right(one)
            case _ => refuse("a RANGE of values over several orders")
          }
          value <- moved(key, offset, plan)
          expr <- scope.convert(value)
        } yield bound.setValue(expr).build()
    }
  }

  /** The key at which the frame of a row ends: `WindowEvaluatorFactoryBase.createBoundOrdering`. */
  private def moved(key: SortOrder, offset: Expression, plan: WindowExec): Result[Expression] = {
    val by = key.direction match {
      case Descending => UnaryMinus(offset)
      case Ascending => offset
    }
    val zone = Some(plan.conf.sessionLocalTimeZone)
    val e = key.child
    constant(by).flatMap { value =>
      (e.dataType, by.dataType, value) match {
        case (_, _, null) => refuse("a RANGE by NULL")
        case (DateType, IntegerType, days: Int) => Right(DateAdd(e, Literal(days)))
        case (DateType, _: YearMonthIntervalType, months: Int) =>
          Right(AddMonths(e, Literal(months)))
        case (DateType, _: DayTimeIntervalType, micros: Long) =>
          Right(DateAdd(e, Literal((micros / MICROS_PER_DAY).toInt)))
        case (TimestampType | TimestampNTZType, _: YearMonthIntervalType, months) =>
          Right(TimestampAddYMInterval(e, Literal(months, by.dataType), zone))
        case (TimestampType | TimestampNTZType, _: DayTimeIntervalType | CalendarIntervalType, v) =>
          Right(TimestampAddInterval(e, Literal(v, by.dataType), zone))
        case (a: AnsiIntervalType, b, v) if a == b =>
          Right(added(e, Literal(v, b), plan.conf))
        // Spark adds without asking whether the type holds the sum.
        case (d: DecimalType, o: DecimalType, v: Decimal) if o.scale == d.scale =>
          Right(DecimalAddNoOverflowCheck(e, Literal(v, o), d))
        case (a: NumericType, b, v) if a == b && !a.isInstanceOf[DecimalType] =>
          Right(added(e, Literal(v, b), plan.conf))
        case (a, b, _) => refuse(s"a RANGE over ${a.sql} by ${b.sql} is not supported")
      }
    }
  }
}
