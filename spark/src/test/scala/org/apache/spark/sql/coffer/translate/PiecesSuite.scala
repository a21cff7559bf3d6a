package org.apache.spark.sql.coffer.translate

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.{
  Add,
  AttributeReference,
  BRound,
  Cast,
  EqualTo,
  Expression,
  In,
  InSet,
  Literal => CatalystLiteral,
  Round,
  ToPrettyString
}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.coffer.proto.plan.{FloatText, TypeId}
import org.apache.spark.sql.execution.{CollectTailExec, FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Types, literals, leaves, and the parts of a result plan, each for itself. */
class PiecesSuite extends AnyFunSuite with PlanFixture {

  test("types go there and back") {
    Seq(
      NullType, BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType,
      StringType, BinaryType,
      DateType, TimestampType, TimestampNTZType, DecimalType(38, 38), DecimalType(1, 0),
      YearMonthIntervalType(), YearMonthIntervalType(1), DayTimeIntervalType(1, 2), TimeType(0),
      ArrayType(TimeType(3))).foreach {
      t =>
        assert(Types.of(t).flatMap(Types.toCatalyst) === Right(t))
    }
  }

  test("CHAR and VARCHAR are strings; what the IR has not is refused") {
    assert(Types.of(CharType(3)).map(_.getId) === Right(TypeId.STRING))
    assert(Types.of(VarcharType(3)).map(_.getId) === Right(TypeId.STRING))
    Seq(
      StructType(Nil),
      CalendarIntervalType,
      ArrayType(CalendarIntervalType), VariantType, StringType("UNICODE")).foreach { t =>
      assert(Types.of(t).isLeft, t)
    }
  }

  test("nested types go there and back") {
    val nested = new StructType()
      .add("a", ArrayType(DecimalType(9, 2), containsNull = false))
      .add("m", MapType(StringType, ArrayType(DateType), valueContainsNull = false), false)
    assert(Types.of(nested).flatMap(Types.toCatalyst) === Right(nested))
  }

  test("a table's columns are declared CHAR and VARCHAR beside their values' type") {
    val schema = StructType.fromDDL("c CHAR(3), v VARCHAR(20), s STRING NOT NULL")
    val fields = Types.declared(schema).map(s => (0 until 3).map(s.getFields)).fold(
      u => fail(u.message), identity)
    assert(fields.map(f => (f.getType.getId, f.getDeclared, f.getNullable)) ===
      Seq((TypeId.STRING, "char(3)", true), (TypeId.STRING, "varchar(20)", true),
        (TypeId.STRING, "", false)))
  }

  test("floats as text are those of this JVM, where an answer goes by them") {
    val mine = if (Runtime.version.feature < 19) FloatText.FLOAT_TEXT_JDK18
    else FloatText.FLOAT_TEXT_SHORTEST
    val (d, f, i) = (AttributeReference("d", DoubleType)(), AttributeReference("f", FloatType)(),
      AttributeReference("i", IntegerType)())
    def text(e: Expression): FloatText = {
      val scope = new Scope(Seq(d, f, i), new Translation(PlanFixture.context()))
      val made = scope.convert(e).fold(u => fail(u.message), identity)
      if (made.hasCast) made.getCast.getFloatText else made.getCall.getFloatText
    }
    Seq(Cast(d, StringType), Cast(f, StringType), Cast(f, DecimalType(38, 0)),
      ToPrettyString(d, Some("UTC")), Round(d, CatalystLiteral(1)),
      BRound(f, CatalystLiteral(-1), true)).foreach(e => assert(text(e) === mine, e))
    Seq(Cast(i, StringType), Add(d, d), ToPrettyString(i, Some("UTC")))
      .foreach(e => assert(text(e) === FloatText.FLOAT_TEXT_SHORTEST, e))
  }

  test("a padded CHAR that is compared with texts has bounds") {
    val c = AttributeReference("c", StringType)()
    val read =
      CharVarcharUtils.addPaddingForScan(CharVarcharUtils.replaceCharVarcharWithStringInSchema(
          StructType.fromDDL("c CHAR(5)")).head match {
          case f => c.withMetadata(f.metadata)
        })
    def bounds(e: Expression): Seq[String] = CharVarchar.bounds(e).map(_.sql)
    assert(bounds(EqualTo(read, CatalystLiteral("ab   "))) === Seq("(c >= 'ab')", "(c <= 'ab   ')"))
    assert(bounds(In(read, Seq(CatalystLiteral("b    "), CatalystLiteral("ab   ")))) === Seq(
      "(c >= 'ab')", "(c <= 'b    ')"))
    assert(bounds(InSet(read, Set(UTF8String.fromString("b    "), null))) === Seq("(c >= 'b')",
      "(c <= 'b    ')"))
    Seq(In(read, Seq(c)), EqualTo(c, CatalystLiteral("ab   ")),
      EqualTo(read, CatalystLiteral(null, StringType)), EqualTo(read, c))
      .foreach(e => assert(bounds(e) === Nil, e))
  }

  test("decimal literals are at their type's scale, whatever scale the value came with") {
    def bytes(value: String, t: DecimalType): Seq[Byte] =
      Literals.of(Decimal(value), t).fold(u => fail(u.message), _.getDecimal.toByteArray.toSeq)
    assert(bytes("1.5", DecimalType(10, 2)) === Seq[Byte](0, -106)) // 150
    assert(bytes("-1.50", DecimalType(10, 1)) === Seq[Byte](-15))
    assert(bytes("0", DecimalType(38, 38)) === Seq[Byte](0))
    assert(bytes("9" * 38, DecimalType(38, 0)).length === 16)
    assert(Literals.of(Decimal("1.55"), DecimalType(10, 1)).isLeft)
  }

  test("a string literal that is not UTF-8 is refused") {
    assert(Literals.of(UTF8String.fromBytes(Array(0xc3.toByte, 0x28)), StringType).isLeft)
    assert(Literals.of(UTF8String.fromString("ä€𝄞"), StringType).map(_.getString) === Right(
      "ä€𝄞"))
  }

  test("NULL has a type and no value; a value in a foreign form is refused") {
    val none = Literals.of(null, DateType)
    assert(none.map(l => (l.getType.getId, l.getValueCase.getNumber)) === Right((TypeId.DATE, 0)))
    assert(Literals.of("text", StringType).isLeft)
    assert(Literals.of(1L, IntegerType).isLeft)
  }

  test("a filter that the source took over goes into the scan, and is refused where it could " +
    "fail") {
    def scanning(filter: AttributeReference => org.apache.spark.sql.catalyst.expressions.Expression)
        : Result[TranslatedFragment] = {
      val plan = physical("SELECT i FROM t").collectFirst { case s: FileSourceScanExec => s }.get
      val column = plan.output.head.asInstanceOf[AttributeReference]
      val leaves = new LeafResolver {
        def leaf(p: SparkPlan): Option[Leaf] =
          Some(ScanLeaf(p, Seq("i"), plan.output, Seq(filter(column)), () => 1))
      }
      Fragments.result(plan, Context(leaves, (_, _) => 0))
    }
    assert(scanning(a => EqualTo(a, CatalystLiteral(1))).map(
      _.fragment.getRoot.getScan.getPushedCount) === Right(1))
    val failing = scanning(a =>
      EqualTo(org.apache.spark.sql.catalyst.expressions.Abs(a, failOnError = true),
        CatalystLiteral(1)))
    assert(failing.left.map(_.reason) === Left("a pushed filter could fail"))
  }

  test("tail keeps the end of the whole result") {
    val plan = CollectTailExec(3, physical("SELECT i FROM t ORDER BY i"))
    val result = ResultPlan.of(plan, PlanFixture.context()).fold(u => fail(u.message), identity)
    assert(result.tail === Some(3))
    assert(result.merges)
    assert(!result.task.fragment.getRoot.hasLimit)
  }

  test("a merged subquery's own plan gives a struct") {
    val plan = physical("SELECT i FROM t WHERE l > (SELECT avg(l) FROM t) AND d < (SELECT max(d) " +
      "FROM t)")
    val merged = plan.subqueriesAll.flatMap(_.children).collectFirst {
      case p if p.output.head.dataType.isInstanceOf[StructType] => p
    }.get
    val result = ResultPlan.of(merged, PlanFixture.context()).fold(u => fail(u.message), identity)
    val fields = result.task.fragment.getOutput.getFieldsList
    assert(fields.size === 1 && fields.get(0).getType.getChildrenCount === 2)
    assert(result.output.length === 1)
  }

  test("what a fragment reads is handed back with its ids") {
    val union = physical("SELECT i FROM t UNION ALL SELECT i FROM t")
    val fragment =
      Fragments.result(union, PlanFixture.context()).fold(u => fail(u.message), identity)
    assert(fragment.scans.map(_.id) === Seq(0, 1))
    assert(fragment.partitions === 8)
    assert(fragment.nodes.keySet === (1 to fragment.nodes.size).toSet)
  }

  test("arguments that must be literals, and which") {
    def reasons(sql: String) = Support.check(physical(sql), PlanFixture.Scans).map(_.reason)
    assert(reasons("SELECT date_format(ts, 'VV') FROM t") === Seq("this pattern is not " +
      "supported"))
    assert(reasons("SELECT date_format(ts, 'yyyy w') FROM t") === Seq("this pattern is not " +
      "supported"))
    assert(reasons("SELECT date_format(ts, 'd.M.yyyy HH:mm:ss.SSS') FROM t") === Nil)
    assert(reasons("SELECT trunc(day, s) FROM t") === Seq("unit that is no literal is not " +
      "supported"))
  }

  test("patterns of LIKE") {
    assert(Support.check(physical("SELECT s LIKE 'a\\\\%' FROM t"), PlanFixture.Scans) === Nil)
    assert(
      Support.check(physical("SELECT i FROM t WHERE s LIKE concat(s, " +
          "'%')"), PlanFixture.Scans).map(_.reason) ===
        Seq("a pattern that is not a literal is not supported"))
  }
}
