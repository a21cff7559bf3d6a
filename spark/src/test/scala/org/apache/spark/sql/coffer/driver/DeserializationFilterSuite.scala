package org.apache.spark.sql.coffer.driver

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InvalidClassException, ObjectInputStream, ObjectOutputStream}

import gadget.Gadget
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkConf
import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.sql.coffer.task.{CofferTaskException, MapCommit}

class DeserializationFilterSuite extends AnyFunSuite {
  private val conf = new SparkConf(false).setMaster("local[1]")
  private def serializer = new JavaSerializer(conf).newInstance()
  private def trip(value: AnyRef): AnyRef = serializer.deserialize[AnyRef](serializer.serialize(value))

  test("a class outside the list is rejected in Spark's own stream before its code runs") {
    DeserializationFilter.install(conf)
    Gadget.ran = false
    val rejected = intercept[InvalidClassException](trip(new Gadget))
    assert(rejected.getMessage.contains("REJECTED"))
    assert(!Gadget.ran)
    // Also inside of what is allowed.
    intercept[InvalidClassException](trip(Some(List(new Gadget))))
    intercept[InvalidClassException](trip(Array[AnyRef](new Gadget)))
    assert(!Gadget.ran)
  }

  test("the plugin's own messages and records pass") {
    DeserializationFilter.install(conf)
    assert(trip(Array[Byte](1)).isInstanceOf[Array[Byte]])
    assert(trip(MapCommit(1, 2, Array(3), Array(4), Array(5))).isInstanceOf[MapCommit])
    assert(trip(new CofferTaskException("failed", 1, 2, "")).isInstanceOf[CofferTaskException])
  }

  test("few bytes cannot claim a long array, a deep stack or a great many objects") {
    val bytes = (value: AnyRef) => {
      val out = new ByteArrayOutputStream()
      val stream = new ObjectOutputStream(out)
      stream.writeObject(value)
      stream.close()
      out.toByteArray
    }
    def read(limits: Limits, value: AnyRef): AnyRef = {
      val stream = new ObjectInputStream(new ByteArrayInputStream(bytes(value)))
      stream.setObjectInputFilter(DeserializationFilter.forTest(limits))
      stream.readObject()
    }
    def nested(levels: Int): AnyRef = (1 to levels).foldLeft[AnyRef]("core")((inner, _) => Some(inner))
    def many(levels: Int): AnyRef = Array.fill[AnyRef](9000)(nested(levels))
    val limits = Limits(array = 80000, depth = 50, references = 30000)
    Seq[AnyRef](new Array[Byte](80000), new Array[Long](10000), new Array[AnyRef](10000), nested(40), many(1))
      .foreach(read(limits, _))
    Seq[AnyRef](new Array[Byte](80001), new Array[Long](10001), new Array[AnyRef](10001), nested(60), many(4))
      .foreach(value => intercept[InvalidClassException](read(limits, value)))
  }

  test("installing again, for the next SparkContext of a JVM, is the same filter") {
    DeserializationFilter.install(conf)
    DeserializationFilter.install(conf)
  }

  test("names of known gadgets are not on the list") {
    val filter = DeserializationFilter.forTest(local = false)
    Seq(
      "org.apache.commons.collections.functors.InvokerTransformer",
      "org.apache.commons.collections4.comparators.TransformingComparator",
      "org.apache.commons.beanutils.BeanComparator",
      "com.sun.org.apache.xalan.internal.xsltc.trax.TemplatesImpl",
      "sun.reflect.annotation.AnnotationInvocationHandler",
      "java.rmi.server.UnicastRemoteObject",
      "java.lang.invoke.SerializedLambda",
      "java.net.URL",
      "java.security.SignedObject",
      "javax.management.BadAttributeValueExpException",
      "org.apache.spark.SerializableWritable",
      "org.codehaus.groovy.runtime.ConvertedClosure").foreach(n => assert(!filter.allowedName(n), n))
    Seq("java.lang.String", "java.util.HashMap", "scala.collection.immutable.$colon$colon", "java.io.IOException",
      "org.apache.spark.scheduler.DirectTaskResult").foreach(n => assert(filter.allowedName(n), n))
  }

  test("closures come back only where tasks run in the driver's JVM, and other classes by the owner's word") {
    assert(DeserializationFilter.forTest(local = true).allowedName("java.lang.invoke.SerializedLambda"))
    assert(DeserializationFilter.forTest(local = false, "com.acme.").allowedName("com.acme.Udf"))
    assert(!DeserializationFilter.forTest(local = false).allowedName("com.acme.Udf"))
  }
}
