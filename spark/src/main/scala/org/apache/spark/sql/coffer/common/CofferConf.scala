package org.apache.spark.sql.coffer.common

import org.apache.spark.SparkConf

/** The plugin's settings. None of them is a secret: SparkConf travels to every executor. */
object CofferConf {

  /** Classes that users name in Spark's settings. */
  val PLUGIN = "org.apache.spark.sql.coffer.CofferPlugin"
  val EXTENSIONS = "org.apache.spark.sql.coffer.CofferExtensions"
  val FILTER_FACTORY = "org.apache.spark.sql.coffer.driver.SerialFilterFactory"

  val CONFIG_DIR: RenamedKey = RenamedKey("spark.coffer.configDir", "spark.coffer.home")
  val PASSPHRASE_FILE = "spark.coffer.passphraseFile"
  val CLIENT_PATH = "spark.coffer.client.path"

  /** The socket of a key service: this account then needs no config directory and no passphrase. */
  val CLIENT_SOCKET = "spark.coffer.client.socket"

  /**
   * A key service on another machine, as `host:port`, and the files (PEM) by which this side and
   * that know each other: this side's certificate, its key, and the authority of the key service's
   * certificate.
   */
  val CLIENT_ADDRESS = "spark.coffer.client.address"
  val CLIENT_CERTIFICATE = "spark.coffer.client.certificate"
  val CLIENT_KEY = "spark.coffer.client.key"
  val CLIENT_AUTHORITY = "spark.coffer.client.authority"

  /** The policy's user that the owner lowers itself to. */
  val USER = "spark.coffer.user"

  /**
   * Of a session. `error` (default): a query of a column that the user may not read fails. `null`:
   * it reads NULL.
   */
  val DENIED_COLUMNS = "spark.coffer.deniedColumns"
  val ENGINE_PATH = "spark.coffer.engine.path"
  val ENGINE_ADDRESS = "spark.coffer.engine.address"
  val ENGINE_MEMORY = "spark.coffer.engine.memory"
  val ENGINE_EVIDENCE = "spark.coffer.engine.evidence"
  val EVENT_LOG_TRUSTED = "spark.coffer.eventLog.trustedDir"
  val ALLOW_CLASSES = "spark.coffer.driver.allowClasses"

  /** The names that the user adds to the deserialisation allow-list. */
  def allowedClasses(conf: SparkConf): Set[String] =
    conf.get(ALLOW_CLASSES, "").split(',').map(_.trim).filter(_.nonEmpty).toSet

  /**
   * What the user adds to the names in pickles that the driver's Python opens: exact names. Read by
   * the Python package.
   */
  val ALLOW_PICKLES = "spark.coffer.driver.allowPickles"

  /** Of a session. `on` (default): what engines cannot do runs in the driver; `off`: refused. */
  val CLIENT_TAIL = "spark.coffer.client.tail"

  /**
   * Of a session. `on` (default): with a local master, rows of exchanges stay in the engine's
   * memory as far as there is room. `off`: they go through Spark's shuffle, sealed.
   */
  val EXCHANGE_IN_MEMORY = "spark.coffer.exchange.inMemory"

  /**
   * Of a session. `on` (default): all stages of a query run in one engine in one request, where
   * they fit its memory, and where it is the only one or what the query reads is little. `off`:
   * stage by stage.
   */
  val ONE_MACHINE = "spark.coffer.oneMachine"

  /** Of a session: what a core reads of stored columns while an exchange takes its time. */
  val ONE_MACHINE_BYTES = "spark.coffer.oneMachine.bytesPerExchange"
  val DEFAULT_ONE_MACHINE_BYTES = "12m"

  /** Of a session: a folder of this machine, into which each query writes its receipt. */
  val RECEIPTS = "spark.coffer.receipts"
  val SCAN_TARGET_BYTES = "spark.coffer.scan.targetBytes"

  /** `required` (default): engines are enclaves. `none`: they are host engines, without keys. */
  val ENCLAVE = "spark.coffer.enclave"

  def hostEngines(conf: SparkConf): Boolean = conf.get(ENCLAVE, "required") match {
    case "required" => false
    case "none" => true
    case other =>
      throw new CofferException("COFFER_CONF", s"$ENCLAVE is $other", "set it to required or none")
  }

  /** Of a session: what is kept from the host at a cost. */
  val PAD = "spark.coffer.pad"
  val PAD_BYTES = "spark.coffer.pad.bytes"
  val PRUNE = "spark.coffer.prune"

  /** What the driver's plugin hands to its executors' plugin at start. */
  val APPLICATION = "application"
  val OWNER_KEY = "ownerKey"
  val ENGINE_VERSION = "engineVersion"

  /** After so long an engine's evidence is not relied on any more; 0: nobody says. */
  val RENEW_SECONDS = "renewSeconds"

  val PROTOCOL = 1

  val DEFAULT_ENGINE_MEMORY = "2GiB"
  val DEFAULT_SCAN_TARGET_BYTES: Long = 64L << 20

  def isLocal(conf: SparkConf): Boolean = {
    val master = conf.get("spark.master", "")
    master == "local" || master.startsWith("local[")
  }

  /** Whether Spark's processes know each other, and encrypt what they say. */
  def networkSealed(conf: SparkConf): Boolean =
    Seq("spark.authenticate", "spark.network.crypto.enabled").forall(conf.getBoolean(_, false))

  /**
   * Executors in processes of their own on this machine, for tests: they inherit the driver's
   * environment.
   */
  def isLocalCluster(conf: SparkConf): Boolean =
    conf.get("spark.master", "").startsWith("local-cluster[")
}
