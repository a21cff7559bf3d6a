package org.apache.spark.sql.coffer.common

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging

/** A setting that had the name `before`: that name still works, with a warning. */
final case class RenamedKey(key: String, before: String) extends Logging {

  def get(conf: SparkConf): Option[String] = get(conf.getOption(_))

  /**
   * The setting's value, by either name. Two names with two values are an error: nobody can know
   * which is meant.
   */
  def get(setting: String => Option[String]): Option[String] =
    (setting(key), setting(before)) match {
      case (Some(now), Some(old)) if now != old =>
        throw new CofferException("COFFER_CONF",
          s"$key is $now, and $before, its old name, is $old", s"remove $before")
      case (now, Some(old)) =>
        logWarning(s"$before is an old name: set $key instead")
        now.orElse(Some(old))
      case (now, None) => now
    }
}
