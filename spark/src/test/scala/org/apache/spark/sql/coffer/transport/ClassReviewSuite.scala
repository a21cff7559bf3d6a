package org.apache.spark.sql.coffer.transport

import scala.util.Try

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.util.Utils

/**
 * No class that a cluster may send can call code: each entry of the lists is looked at, as far as a
 * machine can.
 */
class ClassReviewSuite extends AnyFunSuite {
  private val everywhere = ListedClasses.read(ListedClasses.EVERYWHERE)
  private val localCluster = ListedClasses.read(ListedClasses.LOCAL_CLUSTER)
  private val entries = everywhere ++ localCluster

  /**
   * In a package that is forbidden otherwise, and plain data all the same: read by people, one by
   * one.
   */
  private val placed = Map(
    "org.apache.spark.sql.catalyst.InternalRow" ->
      "the abstract superclass of rows, without fields",
    "org.apache.spark.sql.catalyst.expressions.UnsafeRow" ->
      "bytes; final, no expression in spite of its package",
    "org.apache.spark.sql.execution.datasources.BasicWriteTaskStats" ->
      "counts of a written file, and partition values",
    "org.apache.spark.sql.execution.datasources.ExecutedWriteSummary" ->
      "names of partitions, and the above",
    "org.apache.spark.sql.execution.datasources.WriteTaskResult" ->
      "a commit message, and the above",
    "org.apache.spark.sql.execution.metric.SQLMetric" -> "a number",
    "scala.concurrent.duration.Duration" -> "the superclass of a time",
    "scala.concurrent.duration.FiniteDuration" -> "a number and its unit")

  /** With methods or fields that could be code, read by people, one by one. */
  private val read = Map(
    "java.lang.ClassNotFoundException.readObject" ->
      "reads its cause, an exception of a listed class",
    "java.lang.Enum.readObjectNoData" -> "always throws",
    "java.lang.Object.finalize" -> "empty",
    "java.math.BigDecimal.readObjectNoData" -> "always throws",
    "java.math.BigInteger.readObjectNoData" -> "always throws",
    "scala.Enumeration.ValueOrdering$module" -> "of a class that is not listed",
    "scala.Enumeration.nextName" -> "of classes that are not listed",
    "scala.runtime.BoxedUnit.readResolve" -> "the one unit",
    "java.lang.Enum.readObject" -> "always throws",
    "java.lang.Enum.finalize" -> "empty and final",
    "java.lang.Throwable.readObject" -> "checks its own trace and suppressed exceptions",
    "java.math.BigDecimal.readObject" -> "checks its own numbers",
    "java.math.BigInteger.readObject" -> "checks its own numbers",
    "java.util.ArrayList.readObject" -> "reads as many elements as it says",
    "java.util.CollSer.readObject" -> "reads an array",
    "java.util.CollSer.readResolve" ->
      "makes an immutable list, set or map: hashes of listed classes",
    "java.util.Collections$EmptyList.readResolve" -> "the empty list",
    "java.util.ImmutableCollections$List12.readObject" -> "always throws",
    "java.util.ImmutableCollections$ListN.readObject" -> "always throws",
    "java.util.ImmutableCollections$Map1.readObject" -> "always throws",
    "java.util.ImmutableCollections$MapN.readObject" -> "always throws",
    "java.util.ImmutableCollections$Set12.readObject" -> "always throws",
    "java.util.ImmutableCollections$SetN.readObject" -> "always throws",
    "org.apache.spark.ThrowableSerializationWrapper.readObject" ->
      "reads an exception, of a listed class",
    "org.apache.spark.rpc.netty.NettyRpcEndpointRef.readObject" ->
      "takes the RPC environment that reads it",
    "org.apache.spark.scheduler.CompressedMapStatus.readExternal" ->
      "numbers, and a block manager's id",
    "org.apache.spark.scheduler.DirectTaskResult.readExternal" ->
      "bytes, and accumulators of listed classes",
    "org.apache.spark.scheduler.HighlyCompressedMapStatus.readExternal" ->
      "numbers, a bitmap, a block manager's id",
    "org.apache.spark.sql.catalyst.expressions.UnsafeRow.readExternal" -> "bytes",
    "org.apache.spark.storage.BlockManagerId.readExternal" -> "texts and a port",
    "org.apache.spark.storage.BlockManagerId.readResolve" -> "looks itself up in a cache",
    "org.apache.spark.storage.BlockManagerMessages$UpdateBlockInfo.readExternal" ->
      "a block's name, parsed, and sizes",
    "org.apache.spark.storage.StorageLevel.readExternal" -> "two bytes",
    "org.apache.spark.storage.StorageLevel.readResolve" -> "looks itself up in a cache",
    "org.apache.spark.util.AccumulatorV2.readObject" ->
      "registers with the task that reads it; the driver runs none",
    "org.apache.spark.util.SerializableBuffer.readObject" -> "bytes",
    "org.apache.spark.util.io.ChunkedByteBuffer.readExternal" -> "bytes",
    "org.roaringbitmap.RoaringBitmap.readExternal" -> "numbers",
    "scala.Enumeration.readResolve" -> "its own class's module",
    "scala.Enumeration$Val.readResolve" ->
      "the value of that number in an enumeration of a listed class",
    "scala.collection.generic.DefaultSerializationProxy.readObject" ->
      "adds elements to a builder of its factory's",
    "scala.collection.generic.DefaultSerializationProxy.readResolve" ->
      "what that builder made; all factories listed make plain collections",
    "scala.runtime.ModuleSerializationProxy.moduleClass" -> "the class of a module, itself listed",
    "scala.runtime.ModuleSerializationProxy.readResolve" ->
      "the module of a class that is itself listed")

  private def classOfEntry(entry: ListedClasses.Entry): Option[Class[_]] =
    Try[Class[_]](Utils.classForName[AnyRef](entry.name, initialize = false)).toOption

  test("the lists are sorted, exact, without repetition, and each line says who carries the " +
    "class") {
    Seq(everywhere, localCluster).foreach { list =>
      assert(list.map(_.name) == list.map(_.name).distinct.sorted)
      assert(list.forall(e => e.carriers.nonEmpty && e.unseen.forall(_.nonEmpty)))
    }
    assert(everywhere.map(_.name).intersect(localCluster.map(_.name)).isEmpty)
    entries.foreach(e => assert(e.name.matches("""[\w$]+(\.[\w$]+)*"""), e.name))
  }

  test("each class exists, but for those of cluster managers that are not here") {
    val gone = entries.filter(e => classOfEntry(e).isEmpty)
    assert(gone.forall(_.name.startsWith("org.apache.spark.scheduler.cluster.k8s.")),
      gone.map(_.name))
  }

  test("no class is of a kind that calls code, or in a package of such") {
    val objections = for {
      e <- entries
      c <- classOfEntry(e)
      why <- ClassReview.forbidden(c)
      if !(placed.contains(e.name) && why.startsWith("is in "))
    } yield s"${e.name} $why"
    assert(objections.isEmpty, objections.mkString("\n", "\n", ""))
    assert(placed.keySet.subsetOf(entries.map(_.name).toSet), "stale exceptions")
  }

  test("what runs on reading, or may hold code, was read by people") {
    val found = for {
      e <- entries
      c <- classOfEntry(e).toSeq
      what <- ClassReview.readMethods(c) ++ ClassReview.codeFields(c)
    } yield s"${e.name}.$what"
    assert((found.toSet -- read.keySet).isEmpty,
      (found.toSet -- read.keySet).toSeq.sorted.mkString("\n", "\n", ""))
  }

  test("the review sees what it is for") {
    Seq[(Class[_], String)](
      classOf[java.util.PriorityQueue[_]] -> "holds a comparator",
      classOf[java.util.TreeMap[_, _]] -> "holds a comparator",
      classOf[scala.collection.immutable.TreeMap[_, _]] -> "holds a comparator",
      Ordering.Int.getClass -> "is a comparator",
      java.util.Collections.reverseOrder[String]().getClass -> "is a comparator",
      classOf[LazyList[_]] -> "computes its elements",
      classOf[scala.collection.View.Map[_, _]] -> "computes its elements",
      ((i: Int) => i).getClass -> "is a closure",
      classOf[java.lang.Class[_]] -> "makes objects",
      classOf[java.lang.invoke.SerializedLambda] -> "is in java.lang.invoke.",
      classOf[org.apache.spark.sql.catalyst.expressions.InterpretedOrdering] ->
        "is in org.apache.spark.sql.catalyst.",
      classOf[org.apache.spark.sql.catalyst.encoders.ExpressionEncoder.Deserializer[_]] ->
        "is in org.apache.spark.sql.catalyst.",
      classOf[org.apache.spark.HashPartitioner] -> "is a partitioner",
      classOf[org.apache.hadoop.io.Text] -> "is in org.apache.hadoop.",
      classOf[OwnWritable] -> "is a Hadoop writable",
      classOf[OwnHandler] -> "is a proxy's handler",
      classOf[scala.jdk.FunctionWrappers.AsJavaFunction[_, _]] ->
        "is in scala.jdk.").foreach { case (c, why) =>
      assert(ClassReview.forbidden(c).exists(_.startsWith(why)), s"$c: ${ClassReview.forbidden(c)}")
    }
    assert(ClassReview.readMethods(classOf[gadget.Gadget]) == Seq("readObject"))
    assert(ClassReview.readMethods(classOf[OwnExternalizable]) == Seq("readExternal"))
    assert(ClassReview.codeFields(classOf[java.util.TreeMap[_, _]]) == Seq("comparator"))
  }
}

class OwnWritable extends org.apache.hadoop.io.Writable {
  override def write(out: java.io.DataOutput): Unit = ()
  override def readFields(in: java.io.DataInput): Unit = ()
}

class OwnExternalizable extends java.io.Externalizable {
  override def writeExternal(out: java.io.ObjectOutput): Unit = ()
  override def readExternal(in: java.io.ObjectInput): Unit = ()
}

class OwnHandler extends java.lang.reflect.InvocationHandler with Serializable {
  override def invoke(
      proxy: AnyRef,
      method: java.lang.reflect.Method,
      arguments: Array[AnyRef]): AnyRef = null
}
