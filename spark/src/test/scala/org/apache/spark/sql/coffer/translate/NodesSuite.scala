package org.apache.spark.sql.coffer.translate

import scala.jdk.CollectionConverters._

import com.google.protobuf.Descriptors.FieldDescriptor
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.coffer.proto.plan.{Node, Values}

/** The walk knows every operator of the contract, whatever is added to it. */
class NodesSuite extends AnyFunSuite {
  private val operators: Seq[FieldDescriptor] =
    Node.getDescriptor.getOneofs.asScala.flatMap(_.getFields.asScala).toSeq
  private val leaf = Node.newBuilder.setValues(Values.getDefaultInstance).build()

  private def below(operator: FieldDescriptor): Seq[FieldDescriptor] =
    operator.getMessageType.getFields.asScala.filter(f =>
      f.getJavaType == FieldDescriptor.JavaType.MESSAGE &&
        f.getMessageType == Node.getDescriptor).toSeq

  /** An operator over leaves, each with a number of its own. */
  private def node(operator: FieldDescriptor): (Node, Seq[Node]) = {
    val builder = Node.newBuilder
    val inner = builder.newBuilderForField(operator)
    val leaves = below(operator).zipWithIndex.flatMap { case (f, i) =>
      if (f.isRepeated) Seq(f -> numbered(2 * i + 1), f -> numbered(2 * i + 2))
      else Seq(f ->
        numbered(2 * i + 1))
    }
    leaves.foreach { case (f, child) =>
      if (f.isRepeated) inner.addRepeatedField(f, child) else inner.setField(f, child)
    }
    (builder.setField(operator, inner.build()).build(), leaves.map(_._2))
  }

  private def numbered(id: Int): Node = leaf.toBuilder.setId(id).build()

  test("every operator's children are walked, and replaced in their places") {
    assert(operators.size > 10)
    operators.foreach { operator =>
      val (over, leaves) = node(operator)
      assert(Nodes.children(over) == leaves, operator.getName)
      val moved = Nodes.mapChildren(over)(child => child.toBuilder.setId(child.getId + 100).build())
      assert(Nodes.children(moved).map(_.getId) == leaves.map(_.getId + 100), operator.getName)
      assert(
        Nodes.mapChildren(moved)(child => child.toBuilder.setId(child.getId - 100).build()) == over,
        operator.getName)
    }
  }
}
