package org.apache.spark.sql.coffer.transport

import java.lang.reflect.{Modifier, Proxy}

/**
 * What can be told of a class without running it: whether an object of it can call code when it is
 * read, or used as the data that it seems to be. It judges the lists of this jar in the build, and
 * what a user adds to them.
 */
private[transport] object ClassReview {

  /** Why no list may have the class, if so. */
  def forbidden(c: Class[_]): Option[String] =
    if (Proxy.isProxyClass(c)) Some("is a proxy")
    else if (c.isArray) Some("is an array; its elements' class is what is listed")
    else if (c.isSynthetic || lambda.exists(c.getName.contains)) Some("is a closure")
    else if (self(c.getName)) Some("makes objects of other classes")
    else packages.find(p =>
      c.getName.startsWith(p) &&
        !classOf[Throwable].isAssignableFrom(c)).map(p => s"is in $p*")
      .orElse(ancestors(c).map(_.getName).flatMap(kind(c, _)).headOption)

  /** Its own methods that reading one of its objects runs; those of its superclasses are theirs. */
  def readMethods(c: Class[_]): Seq[String] =
    c.getDeclaredMethods.toSeq.filterNot(m => Modifier.isStatic(m.getModifiers) || m.isBridge)
      .map(_.getName).filter(onReading).distinct.sorted

  /** Its own fields that travel and may hold code, by what they are declared to be. */
  def codeFields(c: Class[_]): Seq[String] =
    c.getDeclaredFields.toSeq.filterNot(f =>
      Modifier.isStatic(f.getModifiers) ||
        Modifier.isTransient(f.getModifiers))
      .filter(f => callsCode(DeserializationFilter.element(f.getType))).map(_.getName).sorted

  private def callsCode(c: Class[_]): Boolean = self(c.getName) ||
    ancestors(c).exists(a => kind(c, a.getName).isDefined)

  private val onReading =
    Set("readObject", "readObjectNoData", "readResolve", "readExternal", "validateObject",
      "finalize")

  private val lambda = Seq("$$Lambda", "$anonfun", "$$anon$")
  private val self = Set("java.lang.Class", "java.lang.Thread", "java.lang.ThreadGroup",
    "java.lang.Runtime",
    "org.apache.spark.SerializableWritable", "org.apache.spark.util.SerializableConfiguration",
    "org.apache.spark.util.SerializableJobConf")

  /**
   * None of these holds plain data. A class in one of them that does is on the list by the
   * exceptions of the test.
   */
  private val packages = Seq("java.lang.invoke.", "java.lang.reflect.", "java.lang.ref.",
    "java.lang.management.",
    "java.beans.", "java.awt.", "java.applet.", "java.rmi.", "java.net.", "java.nio.file.",
    "java.security.",
    "java.util.function.", "java.util.logging.", "java.util.prefs.", "java.util.stream.",
    "java.util.jar.",
    "java.util.zip.", "javax.", "jakarta.", "sun.", "com.sun.", "jdk.", "com.fasterxml.",
    "com.google.",
    "groovy.", "io.netty.", "org.apache.avro.", "org.apache.commons.", "org.apache.hadoop.",
    "org.apache.hive.",
    "org.apache.derby.", "org.apache.ivy.", "org.apache.logging.", "org.apache.orc.",
    "org.apache.parquet.",
    "org.apache.xbean.", "org.codehaus.", "org.datanucleus.", "org.sparkproject.",
    "org.springframework.",
    "org.apache.spark.api.java.", "org.apache.spark.broadcast.", "org.apache.spark.ml.",
    "org.apache.spark.mllib.",
    "org.apache.spark.rdd.", "org.apache.spark.serializer.", "org.apache.spark.sql.api.",
    "org.apache.spark.sql.catalyst.", "org.apache.spark.sql.connect.",
    "org.apache.spark.sql.execution.",
    "org.apache.spark.sql.expressions.", "org.apache.spark.sql.hive.",
    "org.apache.spark.sql.internal.",
    "scala.collection.convert.", "scala.concurrent.", "scala.jdk.", "scala.ref.", "scala.reflect.",
    "scala.sys.",
    "scala.tools.", "scala.util.matching.", "scala.xml.")

  private def kind(c: Class[_], ancestor: String): Option[String] = ancestor match {
    case "java.util.Comparator" | "scala.math.Equiv" | "scala.math.PartialOrdering" |
        "scala.math.Ordering" =>
      Some("is a comparator")
    // Scala's collections are functions of their keys.
    case function() if !classOf[scala.collection.Iterable[_]].isAssignableFrom(c) =>
      Some("is a function")
    case other if other.startsWith("java.util.function.") => Some("is a function")
    case "scala.collection.View" | "scala.collection.immutable.LazyList" |
        "scala.collection.immutable.Stream" |
        "scala.collection.Iterator" | "java.util.Iterator" |
        "scala.collection.immutable.Map$WithDefault" |
        "scala.collection.immutable.SortedMap$WithDefault" |
        "scala.collection.mutable.Map$WithDefault" =>
      Some("computes its elements when they are asked for")
    case "scala.collection.Sorted" | "scala.collection.SortedOps" |
        "scala.collection.mutable.PriorityQueue" |
        "java.util.SortedMap" | "java.util.SortedSet" | "java.util.PriorityQueue" |
        "java.util.concurrent.PriorityBlockingQueue" => Some("holds a comparator")
    case other => code.get(other).map(what => s"is a $what")
  }

  private val function = """scala\.(?:PartialFunction|Function\d+)""".r

  private val code = Map(
    "java.lang.Runnable" -> "program",
    "java.util.concurrent.Callable" -> "program",
    "java.lang.ClassLoader" -> "class loader",
    "java.lang.Thread" -> "thread",
    "java.lang.reflect.InvocationHandler" -> "proxy's handler",
    "java.io.ObjectInputValidation" -> "validation that runs on reading",
    "org.apache.hadoop.io.Writable" -> "Hadoop writable",
    "org.apache.spark.Partitioner" -> "partitioner",
    "org.apache.spark.Partition" -> "partition",
    "org.apache.spark.rdd.RDD" -> "plan",
    "org.apache.spark.scheduler.Task" -> "task",
    "org.apache.spark.broadcast.Broadcast" -> "broadcast",
    "org.apache.spark.sql.Encoder" -> "encoder",
    "org.apache.spark.sql.catalyst.trees.TreeNode" -> "plan or expression",
    "org.apache.spark.api.java.function.Function" -> "function")

  /** The class and all above it. */
  private def ancestors(c: Class[_]): Seq[Class[_]] = {
    val above = Option(c.getSuperclass).toSeq ++ c.getInterfaces
    (c +: above.flatMap(ancestors)).distinct
  }
}
