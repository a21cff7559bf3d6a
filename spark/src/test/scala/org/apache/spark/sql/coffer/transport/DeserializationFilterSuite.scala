package org.apache.spark.sql.coffer.transport

import java.io.{
  ByteArrayInputStream,
  ByteArrayOutputStream,
  InvalidClassException,
  ObjectInputStream,
  ObjectOutputStream
}
import java.lang.reflect.{InvocationHandler, Proxy}
import java.nio.ByteBuffer

import scala.util.Try

import gadget.Gadget
import io.netty.util.concurrent.FastThreadLocalThread
import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite
import sun.reflect.ReflectionFactory

import org.apache.spark.{ExceptionFailure, SparkConf, TaskKilled}
import org.apache.spark.api.python.PythonAccumulatorV2
import org.apache.spark.scheduler.DirectTaskResult
import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException}
import org.apache.spark.sql.coffer.exec.{CofferTaskException, MapCommit}
import org.apache.spark.sql.coffer.plugin.TaskEnds
import org.apache.spark.sql.coffer.recorded.{Held, UnlistedException}
import org.apache.spark.util.{AccumulatorV2, ByteBufferInputStream, LongAccumulator}

class DeserializationFilterSuite extends AnyFunSuite with BeforeAndAfterEach {
  private val local = new SparkConf(false).setMaster("local[1]")
  private def serializer = new JavaSerializer(local).newInstance()
  private def trip(value: AnyRef): AnyRef =
    serializer.deserialize[AnyRef](serializer.serialize(value))

  override protected def afterEach(): Unit = DeserializationFilter.release()

  private def bytes(value: AnyRef): Array[Byte] = {
    val out = new ByteArrayOutputStream()
    val stream = new ObjectOutputStream(out)
    stream.writeObject(value)
    stream.close()
    out.toByteArray
  }

  /** Reads it as from a cluster. */
  private def read(
      value: AnyRef,
      limits: Limits = Limits.default,
      extra: Set[String] = Set.empty): AnyRef = {
    val stream = new ObjectInputStream(new ByteArrayInputStream(bytes(value)))
    stream.setObjectInputFilter(DeserializationFilter.held(_,
        n =>
          ListedClasses.contains(n) ||
            extra(n), limits))
    stream.readObject()
  }

  private def refused(value: AnyRef): Unit = {
    val rejected = intercept[InvalidClassException](read(value))
    assert(rejected.getMessage.contains("REJECTED"), value.getClass.getName)
  }

  test("a class outside the list is rejected in Spark's own stream before its code runs") {
    DeserializationFilter.install(local)
    Gadget.ran = false
    val rejected = intercept[InvalidClassException](trip(new Gadget))
    assert(rejected.getMessage.contains("REJECTED"))
    // Also inside of what is allowed.
    intercept[InvalidClassException](trip(Some(List(new Gadget))))
    intercept[InvalidClassException](trip(Array[AnyRef](new Gadget)))
    assert(!Gadget.ran)
  }

  test("the plugin's own messages and records pass") {
    assert(read(Array[Byte](1)).isInstanceOf[Array[Byte]])
    assert(read(MapCommit(1, 2, Array(3), Array(4), Array(5))).isInstanceOf[MapCommit])
    assert(read(new CofferTaskException("failed", 1, 2, "")).isInstanceOf[CofferTaskException])
    assert(read(Some(List[Any]("a", 1L))) == Some(List[Any]("a", 1L)))
  }

  test("a class that is not listed is refused as an object, an array, a Class, an enum and " +
    "behind a proxy") {
    val handler = new Handler
    val closure: AnyRef = (i: Int) => i + 1
    Seq[AnyRef](
      new Gadget,
      Array.empty[Gadget],
      Array.ofDim[Gadget](1, 0),
      classOf[Gadget],
      classOf[Array[Gadget]],
      classOf[Runtime],
      classOf[Runnable],
      classOf[java.lang.reflect.Method],
      List(classOf[Gadget]),
      java.time.DayOfWeek.MONDAY,
      Proxy.newProxyInstance(getClass.getClassLoader, Array(classOf[Runnable]), handler),
      // Interfaces that are listed, or none, make a proxy no better.
      Proxy.newProxyInstance(getClass.getClassLoader, Array(classOf[java.io.Serializable]),
        handler),
      Proxy.newProxyInstance(getClass.getClassLoader, Array.empty, handler),
      closure,
      Ordering.by[String, Int](_.length),
      java.util.Comparator.naturalOrder[String](),
      String.CASE_INSENSITIVE_ORDER,
      new java.util.PriorityQueue[String](),
      new java.util.TreeMap[String, String](),
      scala.collection.immutable.TreeMap("a" -> 1),
      LazyList.from(Seq(1)).map(_ + 1),
      Map("a" -> 1).withDefaultValue(2),
      new java.net.URL("http://localhost/"),
      new java.io.File("/"),
      java.time.Duration.ZERO).foreach(refused)
  }

  test("few bytes cannot claim a long array, a deep stack or a great many objects") {
    def nested(levels: Int): AnyRef =
      (1 to levels).foldLeft[AnyRef]("core")((inner, _) => Some(inner))
    def many(levels: Int): AnyRef = Array.fill[AnyRef](9000)(nested(levels))
    val limits = Limits(array = 80000, depth = 50, references = 30000)
    Seq[AnyRef](new Array[Byte](80000), new Array[Long](10000), new Array[AnyRef](10000),
      nested(40), many(1))
      .foreach(read(_, limits))
    Seq[AnyRef](new Array[Byte](80001), new Array[Long](10001), new Array[AnyRef](10001),
      nested(60), many(4))
      .foreach(value => intercept[InvalidClassException](read(value, limits)))
    assert(Limits.of(new SparkConf(false).set("spark.driver.maxResultSize",
        "0")).array == Long.MaxValue)
    assert(Limits.of(new SparkConf(false)) == Limits.default)
  }

  test("with a local master closures come back, but not from the network; without a context " +
    "nothing does") {
    val closure = Closures.increment
    def onNetwork(value: AnyRef): Option[Throwable] = {
      var thrown: Option[Throwable] = None
      val thread = new FastThreadLocalThread(() =>
        try trip(value)
        catch { case e: Throwable => thrown = Some(e) })
      thread.start()
      thread.join(60000)
      assert(!thread.isAlive)
      thrown
    }
    DeserializationFilter.install(local)
    assert(trip(closure).asInstanceOf[Int => Int](1) == 2)
    assert(onNetwork(closure).exists(_.isInstanceOf[InvalidClassException]))
    assert(onNetwork("text").isEmpty)
    // For the next context of the JVM again.
    DeserializationFilter.install(local)
    DeserializationFilter.release()
    intercept[InvalidClassException](trip(closure))
    assert(trip("text") == "text")
  }

  test("a cluster's driver is refused where the filter was not there from the JVM's start") {
    val cluster = new SparkConf(false).setMaster("spark://127.0.0.1:7077")
    if (!InJvm.factory) {
      val refused = intercept[CofferException](DeserializationFilter.install(cluster))
      assert(refused.code == "COFFER_DESERIALIZATION_FILTER")
      assert(refused.hint.contains(
          "spark.driver.extraJavaOptions=-Djdk.serialFilterFactory=" +
            "org.apache.spark.sql.coffer.driver.SerialFilterFactory"))
      // That one is set now is not enough.
      DeserializationFilter.install(local)
      intercept[CofferException](DeserializationFilter.install(cluster))
    }
  }

  test("classes are added by exact names that can do no harm") {
    def of(names: String): Set[String] =
      AllowedClasses.of(new SparkConf(false).set(CofferConf.ALLOW_CLASSES, names))
    assert(of("") == Set.empty)
    val name = classOf[Held].getName
    assert(of(s" $name , java.util.UUID") == Set(name, "java.util.UUID"))
    read(new Held(1), extra = of(name))
    refused(new Held(1))
    Seq("org.apache.spark.", "org.apache.spark.sql.*", "org.apache.spark.**", "*",
      "!java.lang.String", "org.apache.spark.sql",
      "com.acme.Udf", s"[L$name;", s"$name[]", "maxdepth=5", s"$name;java.lang.String").foreach {
      text =>
        val refusal = intercept[CofferException](of(s"$name,$text"))
        assert(refusal.code == "COFFER_CONF" && refusal.hint.contains("in full"), text)
    }
    Seq("java.lang.Class", "java.lang.invoke.SerializedLambda", "java.util.PriorityQueue",
      "java.net.URL",
      "org.apache.spark.sql.catalyst.expressions.InterpretedOrdering",
      "org.apache.spark.SerializableWritable",
      "scala.collection.immutable.LazyList", "scala.math.Ordering$Int$",
      "org.apache.spark.sql.catalyst.expressions.objects.Invoke").foreach { text =>
      val refusal = intercept[CofferException](of(text))
      assert(refusal.code == "COFFER_CONF" && refusal.plain.contains("can run code in the " +
          "driver"), text)
    }
  }

  test("a failure whose exception is not listed keeps its text, and one that is listed its " +
    "exception") {
    DeserializationFilter.release()
    def failure(e: Throwable): ExceptionFailure = {
      val sent = SentFailures.sent(new ExceptionFailure(e, Nil), DeserializationFilter.lists)
      read(sent).asInstanceOf[ExceptionFailure]
    }
    val listed = failure(new IllegalStateException("as it was", new java.io.IOException("below")))
    assert(listed.exception.exists(e =>
        e.getMessage == "as it was" &&
          e.getCause.getMessage == "below"))
    val unlisted =
      failure(new RuntimeException("outer", new UnlistedException("inner", new Held(1))))
    assert(unlisted.exception.isEmpty)
    assert(unlisted.description == "outer" &&
      unlisted.toErrorString.contains("UnlistedException: inner"))
    // An executor that sends it all the same.
    // The refusal is caught where the exception is read, and the stream cannot be read on.
    assert(Try(read(new ExceptionFailure(new UnlistedException("inner", new Held(1)),
            Nil))).isFailure)
  }

  test("an update of Python's accumulator, which is a list of pickles, is read only where it is " +
    "empty") {
    val guarded = new TaskEnds.GuardedInstance(serializer)
    def ends(update: PythonAccumulatorV2): Seq[AnyRef] = Seq(
      new DirectTaskResult[Any](ByteBuffer.allocate(1),
        Seq(new LongAccumulator, update).map(travelled), Array.empty[Long]),
      new ExceptionFailure(new IllegalStateException("failed"), Nil).withAccums(
        Seq(travelled(update))),
      TaskKilled("killed", Nil, Seq(travelled(update))))
    def readings(end: AnyRef): Seq[() => AnyRef] = Seq(
      () => guarded.deserialize[AnyRef](serializer.serialize(end)),
      () => guarded.deserialize[AnyRef](serializer.serialize(end), getClass.getClassLoader),
      () =>
        guarded.deserializeStream(new ByteBufferInputStream(serializer.serialize(end))).readObject[
          AnyRef]())
    for (end <- ends(pythonUpdate()); reading <- readings(end))
      assert(reading().getClass == end.getClass)
    for (end <- ends(pythonUpdate("a pickle")); reading <- readings(end)) {
      val rejected = intercept[InvalidClassException](reading())
      assert(rejected.getMessage.contains("filter status: REJECTED"))
    }
    // The list alone lets it pass.
    assert(read(travelled(pythonUpdate())).isInstanceOf[PythonAccumulatorV2])
  }

  /** Made as reading makes it: its constructor wants a context. */
  private def pythonUpdate(pickles: String*): PythonAccumulatorV2 = {
    val constructor = ReflectionFactory.getReflectionFactory
      .newConstructorForSerialization(classOf[PythonAccumulatorV2],
        classOf[Object].getConstructor())
    val made = constructor.newInstance().asInstanceOf[PythonAccumulatorV2]
    pickles.foreach(text => made.add(text.getBytes))
    made
  }

  /** As an executor sends it. */
  private def travelled(update: AccumulatorV2[_, _]): AccumulatorV2[_, _] = {
    val field = classOf[AccumulatorV2[_, _]].getDeclaredField("atDriverSide")
    field.setAccessible(true)
    field.set(update, false)
    update
  }
}

private object Closures {
  val increment: Int => Int = _ + 1
}

private final class Handler extends InvocationHandler with Serializable {
  override def invoke(
      proxy: AnyRef,
      method: java.lang.reflect.Method,
      arguments: Array[AnyRef]): AnyRef = null
}
