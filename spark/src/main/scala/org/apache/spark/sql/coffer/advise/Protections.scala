package org.apache.spark.sql.coffer.advise

import scala.jdk.CollectionConverters._

import org.json4s.{jvalue2extractable, DefaultFormats, Formats}
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.proto.wire._

/**
 * The table of the protections without a client engine that sends it: as
 * `coffer reference --protections --json` prints it.
 */
private[coffer] final case class Protections(all: Seq[Protection]) {
  private val byName = all.map(p => p.getName -> p).toMap

  def apply(name: String): Protection =
    byName.getOrElse(name, throw CofferException.refusal(Seq(s"there is no protection $name")))
}

private[coffer] object Protections {
  private implicit val formats: Formats = DefaultFormats

  private final case class Printed(protections: Seq[Row], leakages: Map[String, String])
  private final case class Row(
      name: String,
      numbers: Treated,
      texts: Option[Treated],
      settings: Seq[String],
      placed: Boolean,
      cost: Cost)
  private final case class Treated(shows: Seq[String], allows: Seq[String], opened_by: String)
  private final case class Cost(
      encrypt: Int,
      open: Int,
      repeated: Int,
      times: Int,
      plus: Int,
      narrow: Option[Int])

  def parse(json: String): Protections = {
    val printed = JsonMethods.parse(json).extract[Printed]
    Protections(printed.protections.map(protection(_, printed.leakages)))
  }

  /** What a stored column of such a protection shows and allows, as the client engine would say. */
  def describe(
      stored: StoredColumn.Builder,
      by: Protection,
      texts: Boolean,
      nullable: Boolean): StoredColumn.Builder = {
    val treatment = if (texts && by.hasTexts) by.getTexts else by.getNumbers
    stored
      .setProtection(by.getName)
      .setEncoding(by.getEncoding)
      .addAllShows(treatment.getShowsList.asScala.filter(s =>
          nullable ||
            s.getWhat != Leakage.LEAKAGE_NULLS).asJava)
      .addAllAllows(treatment.getAllowsList)
      .setOpenedBy(treatment.getOpenedBy)
      .setPrefix(treatment.getOpenedBy == Opener.OPENER_NOBODY)
      .setPlaced(by.getPlaced)
  }

  private def protection(row: Row, words: Map[String, String]): Protection = {
    val made = Protection.newBuilder
      .setEncoding(Encoding.valueOf(code("ENCODING", row.name)))
      .setName(row.name)
      .setNumbers(treatment(row.numbers, words))
      .setLinked(row.settings.contains("link"))
      .setPlaced(row.placed)
      .setCost(cost(row.cost))
    row.texts.foreach(t => made.setTexts(treatment(t, words)))
    made.build()
  }

  private def treatment(of: Treated, words: Map[String, String]): Protection.Treatment =
    of.shows.foldLeft(Protection.Treatment.newBuilder) { (made, shown) =>
      made.addShows(Shown.newBuilder.setWhat(Leakage.valueOf(code("LEAKAGE", shown))).setWords(
          words(shown)))
    }
      .addAllAllows(of.allows.map(a => Capability.valueOf(code("CAPABILITY", a))).asJava)
      .setOpenedBy(Opener.valueOf(code("OPENER", of.opened_by)))
      .build()

  private def cost(of: Cost): Protection.Cost = {
    val made = Protection.Cost.newBuilder
      .setEncrypt(of.encrypt).setOpen(of.open).setRepeated(of.repeated)
      .setTimes(of.times).setPlus(of.plus)
    of.narrow.foreach(made.setNarrow)
    made.build()
  }

  private def code(of: String, name: String): String =
    s"${of}_${name.toUpperCase(java.util.Locale.ROOT)}"
}
