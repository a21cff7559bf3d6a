package org.apache.spark.sql.coffer.driver

import org.apache.spark.sql.coffer.transport.FilterFactory

/**
 * `-Djdk.serialFilterFactory=org.apache.spark.sql.coffer.driver.SerialFilterFactory`: users'
 * settings have this name.
 */
final class SerialFilterFactory extends FilterFactory
