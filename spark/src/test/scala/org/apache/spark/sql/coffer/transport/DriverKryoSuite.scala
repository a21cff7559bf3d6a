package org.apache.spark.sql.coffer.transport

import java.nio.ByteBuffer
import java.nio.file.Path

import scala.util.Try

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

  private def read(conf: SparkConf, bytes: ByteBuffer): Try[AnyRef] =
    Try(new KryoSerializer(conf).newInstance().deserialize[AnyRef](bytes.duplicate()))

  test("Kryo runs what a peer names where nothing holds it back, and reads nothing in the driver") {
    val bytes = queue
    Mark.clear(mark)
    val free = read(new SparkConf(false), bytes)
    assert(Mark.left(mark), free)
    Mark.clear(mark)
    val conf = new SparkConf(false)
    DriverKryo.guard(conf)
    val e = read(conf, bytes).failed.get
    assert(causes(e).exists {
      case c: CofferException => c.code == "COFFER_SERIALIZER" && c.hint.nonEmpty
      case _ => false
    })
    assert(!Mark.left(mark))
  }

  test("the user's registrators stay beside it") {
    val conf = new SparkConf(false).set("spark.kryo.registrator", "some.users.Own")
    DriverKryo.guard(conf)
    DriverKryo.guard(conf)
    assert(conf.get("spark.kryo.registrator") == s"${classOf[DriverKryo].getName},some.users.Own")
  }
}
