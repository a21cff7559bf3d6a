package org.apache.spark.sql.coffer.translate

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.coffer.proto.plan.Node

/**
 * The walk over a fragment's tree: which operators are below one, and the same operator over
 * others.
 */
private[coffer] object Nodes {

  def children(node: Node): Seq[Node] = node.getOpCase match {
    case Node.OpCase.FILTER => Seq(node.getFilter.getChild)
    case Node.OpCase.PROJECT => Seq(node.getProject.getChild)
    case Node.OpCase.AGGREGATE => Seq(node.getAggregate.getChild)
    case Node.OpCase.SORT => Seq(node.getSort.getChild)
    case Node.OpCase.LIMIT => Seq(node.getLimit.getChild)
    case Node.OpCase.EXPAND => Seq(node.getExpand.getChild)
    case Node.OpCase.DRAWN => Seq(node.getDrawn.getChild)
    case Node.OpCase.PLACED => Seq(node.getPlaced.getChild)
    case Node.OpCase.GENERATE => Seq(node.getGenerate.getChild)
    case Node.OpCase.DECRYPT => Seq(node.getDecrypt.getChild)
    case Node.OpCase.WINDOW => Seq(node.getWindow.getChild)
    case Node.OpCase.WINDOW_GROUP_LIMIT => Seq(node.getWindowGroupLimit.getChild)
    case Node.OpCase.UNION => node.getUnion.getChildrenList.asScala.toSeq
    case Node.OpCase.JOIN => Seq(node.getJoin.getLeft, node.getJoin.getRight)
    case Node.OpCase.SCAN | Node.OpCase.INPUT | Node.OpCase.VALUES | Node.OpCase.NUMBERS |
        Node.OpCase.OP_NOT_SET => Nil
  }

  /** `f` of each child, in their places. */
  def mapChildren(node: Node)(f: Node => Node): Node = {
    val b = node.toBuilder
    node.getOpCase match {
      case Node.OpCase.FILTER => b.getFilterBuilder.setChild(f(node.getFilter.getChild))
      case Node.OpCase.PROJECT => b.getProjectBuilder.setChild(f(node.getProject.getChild))
      case Node.OpCase.AGGREGATE => b.getAggregateBuilder.setChild(f(node.getAggregate.getChild))
      case Node.OpCase.SORT => b.getSortBuilder.setChild(f(node.getSort.getChild))
      case Node.OpCase.LIMIT => b.getLimitBuilder.setChild(f(node.getLimit.getChild))
      case Node.OpCase.EXPAND => b.getExpandBuilder.setChild(f(node.getExpand.getChild))
      case Node.OpCase.PLACED => b.getPlacedBuilder.setChild(f(node.getPlaced.getChild))
      case Node.OpCase.DRAWN => b.getDrawnBuilder.setChild(f(node.getDrawn.getChild))
      case Node.OpCase.GENERATE => b.getGenerateBuilder.setChild(f(node.getGenerate.getChild))
      case Node.OpCase.DECRYPT => b.getDecryptBuilder.setChild(f(node.getDecrypt.getChild))
      case Node.OpCase.WINDOW => b.getWindowBuilder.setChild(f(node.getWindow.getChild))
      case Node.OpCase.WINDOW_GROUP_LIMIT =>
        b.getWindowGroupLimitBuilder.setChild(f(node.getWindowGroupLimit.getChild))
      case Node.OpCase.UNION =>
        node.getUnion.getChildrenList.asScala.zipWithIndex.foreach { case (c, i) =>
          b.getUnionBuilder.setChildren(i, f(c))
        }
      case Node.OpCase.JOIN =>
        b.getJoinBuilder.setLeft(f(node.getJoin.getLeft)).setRight(f(node.getJoin.getRight))
      case Node.OpCase.SCAN | Node.OpCase.INPUT | Node.OpCase.VALUES | Node.OpCase.NUMBERS |
          Node.OpCase.OP_NOT_SET =>
    }
    b.build()
  }
}
