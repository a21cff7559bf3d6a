package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning
import org.apache.spark.sql.coffer.proto.plan.{Drawn, Expand, Numbers, Union, Values}
import org.apache.spark.sql.coffer.versions.{isOneRow, sampleSeed, OneRowRelationExec}
import org.apache.spark.sql.execution._

/**
 * Whole relations: rows known to the planner, unions, and the multiplying of rows for GROUPING
 * SETS.
 */
private[translate] object SetOperators extends OperatorFamily {

  override def entries: Seq[OperatorEntry] = Seq(
    operator[LocalTableScanExec]("values, inside the sealed fragment")((plan, _, translation) =>
      values(plan, plan.output, plan.rows, translation)),
    operator[OneRowRelationExec]("values: one row without columns")((plan, _, translation) =>
      if (isOneRow(plan)) values(plan, plan.output, Seq(InternalRow.empty), translation)
      else refuse("its rows are plain and would be shipped inside tasks")),
    operator[EmptyRelationExec]("values without " +
      "rows")((plan, _, translation) => values(plan, plan.output, Nil, translation)),
    operator[RangeExec]("numbers")((plan, _, translation) =>
      if (plan.isEmptyRange)
        values(plan, plan.output, Nil, translation)
      else
        Types.schema(plan.output).map { schema =>
          val numbers = Numbers.newBuilder
            .setSchema(schema)
            .setStart(plan.start)
            .setEnd(plan.end)
            .setStep(plan.step)
            .setPartitions(plan.numSlices)
          Relation(
            translation.node(plan).setNumbers(numbers).build(),
            plan.output,
            () => plan.numSlices)
        }),
    operator[SampleExec]("a sample; where the order of the rows may change between attempts, the " +
      "stage is reported to Spark as INDETERMINATE") { (plan, children, translation) =>
      val child = children.head
      val drawn = Drawn.newBuilder
        .setChild(child.node)
        .setLower(plan.lowerBound)
        .setUpper(plan.upperBound)
        .setReplacement(plan.withReplacement)
        .setSeed(sampleSeed(plan))
      Right(Relation(
          translation.node(plan).setDrawn(drawn).build(),
          plan.output,
          child.partitions))
    },
    operator[UnionExec]("union")(union(_, _, _)),
    operator[ExpandExec]("expand") { (plan, children, translation) =>
      val child = children.head
      val scope = new Scope(child.output, translation)
      for {
        schema <- Types.schema(plan.output)
        projections <- traverse(plan.projections)(traverse(_)(scope.convert))
      } yield {
        val expand = Expand.newBuilder.setChild(child.node).setSchema(schema)
        projections.foreach { exprs =>
          val projection = Expand.Projection.newBuilder
          exprs.foreach(projection.addExprs)
          expand.addProjections(projection)
        }
        Relation(translation.node(plan).setExpand(expand).build(), plan.output, child.partitions)
      }
    })

  /** Rows that travel inside the sealed fragment, in one partition. */
  private def values(
      plan: SparkPlan,
      output: Seq[Attribute],
      rows: Seq[InternalRow],
      translation: Translation): Result[Relation] =
    for {
      schema <- Types.schema(output)
      literals <- traverse(rows) { row =>
        traverse(output.zipWithIndex) { case (a, i) =>
          Literals.of(if (row.isNullAt(i)) null else row.get(i, a.dataType), a.dataType)
        }
      }
    } yield {
      val values = Values.newBuilder.setSchema(schema)
      literals.foreach { row =>
        val builder = Values.Row.newBuilder
        row.foreach(builder.addValues)
        values.addRows(builder)
      }
      Relation(translation.node(plan).setValues(values).build(), output, () => 1)
    }

  private def union(
      plan: UnionExec,
      children: Seq[Relation],
      translation: Translation): Result[Relation] =
    Types.schema(plan.output).map { schema =>
      val union = Union.newBuilder.setSchema(schema)
      children.foreach(c => union.addChildren(c.node))
      // The same test as in UnionExec.doExecute. At the client each child has one partition, and so
      // has what they make.
      val stacked =
        !translation.atClient && plan.outputPartitioning.isInstanceOf[UnknownPartitioning]
      val counts = if (stacked) children.map(_.partitions()) else Nil
      counts.foreach(c => union.addChildrenPartitions(c))
      val partitions = if (stacked) () => counts.sum else children.head.partitions
      Relation(translation.node(plan).setUnion(union).build(), plan.output, partitions)
    }
}
