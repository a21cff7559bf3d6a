package org.apache.spark.sql.coffer.kms

import java.util.Base64

import org.apache.hadoop.conf.Configuration
import org.apache.parquet.crypto.KeyAccessDeniedException
import org.apache.parquet.crypto.keytools.KmsClient
import org.apache.spark.SparkEnv
import org.apache.spark.sql.coffer.common.{CofferConf, CofferException, RenamedKey}
import org.apache.spark.sql.coffer.transport.Programs

/**
 * Coffer's masters for parquet-java's own encryption (`PropertiesDrivenCryptoFactory`), in Spark
 * ''without'' the plugin:
 *
 * {{{
 * spark.hadoop.parquet.crypto.factory.class
 *   org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory
 * spark.hadoop.parquet.encryption.kms.client.class
 *   org.apache.spark.sql.coffer.kms.CofferKmsClient
 * spark.hadoop.coffer.kms.configDir        /trusted/coffer
 * spark.hadoop.coffer.kms.passphrase.file  /trusted/passphrase
 * }}}
 *
 * Names of keys are names of masters; what it writes, `coffer adopt` makes a table of. It also
 * opens the files of sealed tables. Keys are wrapped and opened by `coffer kms`, a process of its
 * own, but parquet-java then encrypts and decrypts in this JVM, on executors too: so only where all
 * of them may see the rows. Beside the plugin it refuses to work.
 */
class CofferKmsClient extends KmsClient {

  private var program: KmsProgram = _

  override def initialize(
      conf: Configuration,
      instanceId: String,
      instanceUrl: String,
      token: String): Unit = {
    if (Option(SparkEnv.get).exists(_.conf.get("spark.plugins", "").contains(CofferConf.PLUGIN))) {
      throw new KeyAccessDeniedException(
        "beside Coffer's plugin no key of a file comes into a JVM\n" +
          "hint: coffer adopt makes a table of such files, which the session then reads")
    }
    val setting = (name: String) => Option(conf.get(name)).filter(_.nonEmpty)
    val binary =
      try Programs.locate("coffer", setting(CofferKmsClient.PROGRAM), CofferKmsClient.PROGRAM)
      catch { case e: CofferException => throw new KeyAccessDeniedException(e.getMessage, e) }
    val command = Seq(binary.toString, "kms") ++
      CofferKmsClient.CONFIG_DIR.get(setting).toSeq.flatMap(Seq("--config-dir", _)) ++
      setting(CofferKmsClient.PASSPHRASE_FILE).toSeq.flatMap(Seq("--passphrase-file", _))
    program = KmsProgram.of(command)
  }

  override def wrapKey(key: Array[Byte], master: String): String =
    program.ask("wrap", Base64.getEncoder.encodeToString(key), master, "wrapped")

  override def unwrapKey(wrapped: String, master: String): Array[Byte] =
    Base64.getDecoder.decode(program.ask("unwrap", wrapped, master, "key"))
}

object CofferKmsClient {
  val PROGRAM = "coffer.kms.program"
  val CONFIG_DIR: RenamedKey = RenamedKey("coffer.kms.configDir", "coffer.kms.home")
  val PASSPHRASE_FILE = "coffer.kms.passphrase.file"
}
