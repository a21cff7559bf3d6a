package org.apache.spark.sql.coffer.fake

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.{BeforeAndAfterAll, Suite}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.coffer.proto.plan.{DataType, Field, Schema, TypeId}
import org.apache.spark.sql.coffer.proto.wire.TableInfo
import org.apache.spark.util.Utils

/**
 * A session with the plugin, engines that only check what they are handed, and the sealed tables
 * `t`, `u` and, partitioned by `s`, `p`.
 */
trait FakeSession extends BeforeAndAfterAll { self: Suite =>
  protected var folder: Path = _
  protected var client: FakeClientEngine = _
  protected var engine: FakeEngine = _
  protected var spark: SparkSession = _

  /** Further settings of the session, and further tables by their paths. */
  protected def settings: Map[String, String] = Map.empty
  protected def more: Map[String, TableInfo] = Map.empty

  private def table(handle: Int, id: String, path: String, partitionColumns: String*): TableInfo = {
    def field(name: String, id: TypeId) =
      Field.newBuilder.setName(name).setType(DataType.newBuilder.setId(id)).setNullable(
        true).build()
    val info = TableInfo.newBuilder.setHandle(handle).setTableId(id).setVersion(1).setRows(
      60).setBytes(6000).setPath(path)
      .setSchema(
        Schema.newBuilder.addFields(field("k", TypeId.LONG)).addFields(field("v", TypeId.DOUBLE))
          .addFields(field("s", TypeId.STRING)))
    partitionColumns.foreach(info.addPartitionColumns)
    info.addAllProtections(PrintedProtections.all.all.asJava)
    (0 until 3).foreach(_ =>
      info.addColumns(TableInfo.ColumnInfo.newBuilder.setProtection("tee").setBytes(2000)))
    (0 until 2).foreach { _ =>
      val file = TableInfo.FileInfo.newBuilder
      (0 until 3).foreach(_ =>
        file.addRowGroups(TableInfo.FileInfo.RowGroup.newBuilder.setRows(10).setBytes(1000)))
      info.addFiles(file)
    }
    info.build()
  }

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    folder = Files.createTempDirectory("coffer-fake")
    client = new FakeClientEngine(
      folder,
      Map(
        "/sealed/t" -> table(1, "aa", "/sealed/t"),
        "/sealed/u" -> table(2, "bb", "/sealed/u"),
        "/sealed/p" -> table(3, "cc", "/sealed/p", "s")) ++ more)
    engine = new FakeEngine(folder)
    val builder = SparkSession.builder()
    settings.foreach { case (key, value) => builder.config(key, value) }
    spark = builder
      .master("local[2, 3]")
      .config("spark.ui.enabled", "false")
      .config("spark.plugins", "org.apache.spark.sql.coffer.CofferPlugin")
      .config("spark.sql.extensions", "org.apache.spark.sql.coffer.CofferExtensions")
      .config("spark.coffer.client.path", client.binary.toString)
      .config("spark.coffer.engine.path", engine.binary.toString)
      .config("spark.sql.shuffle.partitions", "5")
      // What these engines are asked is looked at stage by stage.
      .config("spark.coffer.oneMachine", "off")
      .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toString)
      .getOrCreate()
    (Seq("/sealed/t", "/sealed/u", "/sealed/p") ++ more.keys).foreach { path =>
      spark.read.format("coffer").load(path).createOrReplaceTempView(path.stripPrefix("/sealed/"))
    }
  }

  override protected def afterAll(): Unit = {
    try if (spark != null) spark.stop()
    finally {
      Seq(client, engine).filter(_ != null).foreach(_.close())
      Utils.deleteRecursively(folder.toFile)
      super.afterAll()
    }
  }

  protected def withConf[A](settings: (String, String)*)(body: => A): A = {
    val before = settings.map { case (key, _) => key -> spark.conf.getOption(key) }
    settings.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally before.foreach {
        case (key, Some(value)) => spark.conf.set(key, value)
        case (key, None) => spark.conf.unset(key)
      }
  }
}
