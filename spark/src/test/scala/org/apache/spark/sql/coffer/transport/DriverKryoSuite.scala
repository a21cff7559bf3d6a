package org.apache.spark.sql.coffer.transport

import java.nio.ByteBuffer
import java.nio.file.Path

import gadget.{Chains, Mark}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SparkConf
import org.apache.spark.serializer.KryoSerializer
import org.apache.spark.sql.coffer.common.CofferException

class DriverKryoSuite extends AnyFunSuite {
  private val mark = "coffer.gadget.kryo"

  private def causes(e: Throwable): Seq[Throwable] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).toSeq

  private def queue: ByteBuffer = {
    val chain = Chains.all.find(_.name == "queue-of-rows").get
    new KryoSerializer(new SparkConf(false)).newInstance().serialize(
      chain.build(mark, Path.of("/nowhere")))
  }

  test("Kryo runs what a peer names where nothing holds it back, and reads nothing in the driver") {
    val bytes = queue
    Mark.clear(mark)
    new KryoSerializer(new SparkConf(false)).newInstance().deserialize[AnyRef](bytes.duplicate())
    assert(Mark.left(mark))
    Mark.clear(mark)
    val conf = new SparkConf(false).set("spark.kryo.registrator", "some.users.Own")
    DriverKryo.guard(conf)
    DriverKryo.guard(conf)
    assert(conf.get("spark.kryo.registrator") == s"${classOf[DriverKryo].getName},some.users.Own")
    val e = intercept[Exception](
      new KryoSerializer(conf).newInstance().deserialize[AnyRef](bytes.duplicate()))
    assert(causes(e).exists {
      case c: CofferException => c.code == "COFFER_SERIALIZER"
      case _ => false
    })
    assert(!Mark.left(mark))
  }
}
