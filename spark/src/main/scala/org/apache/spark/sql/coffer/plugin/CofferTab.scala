package org.apache.spark.sql.coffer.plugin

import scala.xml.Node

import jakarta.servlet.http.HttpServletRequest

import org.apache.spark.sql.coffer.exec.{CofferQuery, ToldQuery}
import org.apache.spark.sql.coffer.transport.{AdmittedEngine, CofferDriver}
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}

/**
 * The tab *Coffer* of Spark's UI: the engines with what they proved, and the last queries with what
 * of them was sealed. What a query asks, and of which tables, is on Spark's own tabs.
 */
private[plugin] final class CofferTab(ui: SparkUI, driver: CofferDriver)
    extends SparkUITab(ui, "coffer") {
  attachPage(new CofferPage(this, driver))
}

private final class CofferPage(parent: CofferTab, driver: CofferDriver) extends WebUIPage("") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    def engine(of: AdmittedEngine): Seq[Node] = <tr>
      <td>{of.id}</td><td>{evidence(of)}</td><td>{of.version}</td>
      <td>{UIUtils.formatDate(of.first)}</td><td>{UIUtils.formatDate(of.last)}</td></tr>
    def query(of: ToldQuery): Seq[Node] = <tr>
      <td>{place(request, of)}</td><td>{UIUtils.formatDate(of.began)}</td>
      <td>{of.stages}</td><td>{if (of.isOpen) "open" else "ended"}</td>
      <td><code>{of.name.mkString}</code></td></tr>
    val warning =
      if (driver.simulatedEvidence)
        <p><strong>Engines run on simulated evidence: nothing proves what code they are.</strong>
        </p>
      else Nil
    def content: Seq[Node] = <div>
      {warning}
      <p>Application {driver.application}, client engine {driver.welcome.getEngineVersion},
      {CofferQuery.liveSessions} open sessions.</p>
      <h4>Engines that the client engine has admitted</h4>
      {
      UIUtils.listingTable(Seq("Engine", "Evidence", "Version", "Admitted", "Proved last"), engine,
        driver.engines, fixedWidth = true)
    }
      <h4>Sealed queries, the last first</h4>
      {
      UIUtils.listingTable(
        Seq("Query", "Began", "Sealed stages", "Session", "In logs"), query, ToldQuery.last,
        fixedWidth = true)
    }
    </div>
    UIUtils.headerSparkPage(request, "Coffer", content, parent)
  }

  private def evidence(of: AdmittedEngine): String =
    if (of.simulated) s"${of.kind}: proves nothing" else of.kind

  private def place(request: HttpServletRequest, of: ToldQuery): Seq[Node] = of.execution match {
    case Some(id) =>
      val page = UIUtils.prependBaseUri(request, parent.basePath)
      <a href={s"$page/SQL/execution/?id=$id"}>SQL query {id}</a>
    case None => <span>-</span>
  }
}
