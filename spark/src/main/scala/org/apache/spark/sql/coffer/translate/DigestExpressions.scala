package org.apache.spark.sql.coffer.translate

import org.apache.spark.sql.catalyst.expressions.{
  Left => _,
  Literal => CatalystLiteral,
  Right => _,
  _
}
import org.apache.spark.sql.coffer.proto.plan.Expr

/** Digests, checksums, Spark's hashes, and Bloom filters of them. */
private[translate] object DigestExpressions extends ExpressionFamily {

  override def entries: Seq[ExpressionEntry] = Seq(
    function[Md5]("md5"),
    function[Sha1]("sha1"),
    function[Sha2]("sha2"),
    function[Crc32]("crc32"),
    function[BloomFilterMightContain]("might_contain"),
    entry[Murmur3Hash]("`murmur3_hash`") { (e, scope) =>
      seeded("murmur3_hash", e, CatalystLiteral(e.seed), scope)
    },
    entry[XxHash64]("`xx_hash64`") { (e, scope) =>
      seeded("xx_hash64", e, CatalystLiteral(e.seed), scope)
    })

  private def seeded(
      name: String,
      expr: Expression,
      seed: CatalystLiteral,
      scope: Scope): Result[Expr] = Calls.of(name, expr, expr.children :+ seed, scope)
}
