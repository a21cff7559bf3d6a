package org.apache.spark.sql.coffer

/**
 * Translation of Catalyst's physical plans into the fragment IR (`proto/coffer/plan.proto`).
 *
 * Pure: nothing is executed, sealed or sent here. What has no exact translation is an
 * [[translate.Unsupported]] that names the operator, the expression and the reason; there is no
 * approximation and no falling back.
 *
 * Entry points: [[translate.Support]] (is this plan supported at all?), [[translate.Fragments]]
 * (one query stage) and [[translate.ResultPlan]] (the stage whose rows go to the client, with what
 * the client engine does after it).
 */
package object translate {
  type Result[+A] = Either[Unsupported, A]

  private[translate] def refuse(reason: String): Result[Nothing] = Left(Unsupported(reason))

  private[translate] def traverse[A, B](items: Iterable[A])(f: A => Result[B]): Result[Vector[B]] =
    items.foldLeft[Result[Vector[B]]](Right(Vector.empty)) { (done, item) =>
      done.flatMap(bs => f(item).map(bs :+ _))
    }
}
