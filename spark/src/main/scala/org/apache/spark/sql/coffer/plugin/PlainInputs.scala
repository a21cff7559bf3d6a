package org.apache.spark.sql.coffer.plugin

import java.net.URI

import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.plans.logical.AnalysisHelper
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.coffer.common.CofferException
import org.apache.spark.sql.coffer.exec.SealedPlans
import org.apache.spark.sql.coffer.split.{CofferTable, Locations}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.{CharType, DataType, StringType, VarcharType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Plain Parquet tables beside sealed ones are read by the engines too, if the policy lists them
 * among its unverified inputs: the client engine says. Then their rows never are on an executor's
 * heap beside sealed results, and the whole query stays one sealed plan. A query over plain tables
 * alone is none of ours.
 */
object PlainInputs extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SealedPlans.mentions(plan)) AnalysisHelper.allowInvokingTransformsInAnalyzer(convert(plan,
        PlainSources.written(plan)))
    else plan

  /** `written`: what engines do not read, the driver may, to have it sealed. */
  private def convert(plan: LogicalPlan, written: Boolean): LogicalPlan =
    plan.transformUp { case node =>
      (if (written) orNot(node) else relation(node, whether = false)).transformExpressions {
        case s: SubqueryExpression => s.withNewPlan(convert(s.plan, written))
      }
    }

  private def orNot(node: LogicalPlan): LogicalPlan =
    try relation(node, whether = true)
    catch { case e: CofferException if LEFT(e.code) => node }

  private val LEFT = Set("unverified_input", "COFFER_UNVERIFIED_INPUT", "COFFER_UNSUPPORTED")

  private def relation(node: LogicalPlan, whether: Boolean): LogicalPlan = node match {
    case l @ LogicalRelation(fs: HadoopFsRelation, _, _, false, _)
        if fs.fileFormat.isInstanceOf[ParquetFileFormat] =>
      val table = CofferTable.plain(files(fs), l.output.headOption.fold("")(_ => name(l)), whether)
      val found = table.schema.fields.map(f => f.name -> f.dataType).toMap
      val columns = l.output.map { a =>
        // Spark's own schema of a file without columns that it asks for would give NULLs.
        found.get(a.name) match {
          case Some(t) if t == stored(a.dataType).asNullable => a
          case Some(t) => throw refused(l,
              s"column ${a.name} is ${t.sql} in the files and " +
                s"${a.dataType.sql} in Spark's schema")
          case None => throw refused(l,
              s"column ${a.name} is in Spark's schema and not in all " +
                s"files")
        }
      }
      DataSourceV2Relation(table, columns, None, None, CaseInsensitiveStringMap.empty())
    case other => other
  }

  private def files(fs: HadoopFsRelation): Seq[String] = {
    if (fs.partitionSchema.nonEmpty) throw new CofferException(
      "COFFER_UNVERIFIED_INPUT",
      s"the plain table at ${fs.location.rootPaths.mkString(", ")} is partitioned by folder " +
        s"names, which engines do not read",
      "read one partition's folder, or seal the table with `coffer encrypt`")
    val options = CaseInsensitiveMap(fs.options)
    if (options.get("datetimeRebaseMode").orElse(options.get("int96RebaseMode")).exists(
        !_.equalsIgnoreCase("CORRECTED")))
      throw new CofferException(
        "COFFER_UNVERIFIED_INPUT",
        "engines read dates and times of plain files as they are, and the table asks for another " +
          "calendar",
        "rewrite the files with the option datetimeRebaseMode=CORRECTED")
    fs.location.inputFiles.toVector.map(file)
  }

  /** A local path, or the name of a place on other storage. */
  private def file(uri: String): String = {
    val parsed = new URI(uri)
    if (parsed.getScheme == null || parsed.getScheme == "file") parsed.getPath
    else Locations.served(parsed)
  }

  private def stored(t: DataType): DataType = t match {
    case _: CharType | _: VarcharType => StringType
    case other => other
  }

  private def name(l: LogicalRelation): String =
    l.catalogTable.map(_.identifier.unquotedString).getOrElse(l.relation match {
      case fs: HadoopFsRelation => fs.location.rootPaths.mkString(", ")
      case _ => l.nodeName
    })

  private def refused(l: LogicalRelation, why: String) =
    CofferException.refusal(Seq(s"plain input ${name(l)}: $why; rewrite the files with one " +
        s"schema, or seal them with `coffer encrypt`"))
}
