package org.apache.spark.sql.coffer.translate

/** Calls over intervals and times of day, with the ends of their types and every form of text. */
private[translate] object IntervalCases {
  private def f(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns)

  /** What queries run is the generated code; the interpreter has other errors for some. */
  private def g(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns, differs = true)

  private def z(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns, zoned = true)

  private val years = Seq("INTERVAL '0' MONTH", "INTERVAL '1' MONTH", "INTERVAL '-1' MONTH",
    "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '-1-2' YEAR TO MONTH",
    "INTERVAL '-0-11' YEAR TO MONTH",
    "INTERVAL '25' MONTH", "INTERVAL '2147483647' MONTH", "INTERVAL '-2147483648' MONTH", "NULL")
  private val days = Seq("INTERVAL '0' SECOND", "INTERVAL '1' DAY", "INTERVAL '-1' DAY",
    "INTERVAL '1 02:03:04.567891' DAY TO SECOND", "INTERVAL '-1 02:03:04.5' DAY TO SECOND",
    "INTERVAL '-00:00:00.000001' HOUR TO SECOND", "INTERVAL '09:59' MINUTE TO SECOND",
    "INTERVAL '-36:30' HOUR TO MINUTE", "INTERVAL '106751991 04:00:54.775807' DAY TO SECOND",
    "(INTERVAL '-106751991 04:00:54.775807' DAY TO SECOND - INTERVAL '0.000001' SECOND)", "NULL")
  private val yearUnits = Seq("YEAR", "MONTH", "YEAR TO MONTH")
  private val dayUnits = Seq("DAY", "DAY TO HOUR", "DAY TO MINUTE", "DAY TO SECOND", "HOUR",
    "HOUR TO MINUTE", "HOUR TO SECOND", "MINUTE", "MINUTE TO SECOND", "SECOND")

  private val months = "INTERVAL YEAR TO MONTH" -> years
  private val micros = "INTERVAL DAY TO SECOND" -> days
  private val both = Seq(months, micros)

  private val numbers = Seq(
    "TINYINT" -> Seq("0", "1", "-1", "3", "127", "NULL"),
    "SMALLINT" -> Seq("0", "2", "-1", "-32768"),
    "INT" -> Seq("0", "7", "-1", "2147483647", "-2147483648", "NULL"),
    "BIGINT" -> Seq("0", "2", "-1", "3", "9223372036854775807", "-9223372036854775808", "NULL"),
    "FLOAT" -> Seq("0", "-0.0", "0.5", "-1.5", "'NaN'", "'Infinity'", "1.0E30", "NULL"),
    "DOUBLE" -> Seq("0", "-0.0", "0.5", "-2.5", "1.0E-9", "'NaN'", "'-Infinity'", "1.0E300",
      "NULL"),
    "DECIMAL(5,2)" -> Seq("0", "0.5", "-2.5", "999.99", "0.01", "NULL"),
    "DECIMAL(38,18)" -> Seq("0", "1.5", "-0.000000000000000001", "99999999999999999999"),
    "DECIMAL(38,0)" -> Seq("0", "3", "-99999999999999999999999999999999999999"))

  private val arithmetic = both.flatMap { of =>
    Seq(f("a + b", of, of), f("a - b", of, of), f("try_add(a, b)", of, of),
      f("try_subtract(a, b)", of, of), f("-a", of), f("+a", of), g("abs(a)", of),
      f("a < b", of, of), f("a <=> b", of, of), f("greatest(a, b)", of, of), f("hash(a)", of),
      f("xxhash64(a)", of), f("coalesce(a, b)", of, of), f("if(a > b, a, b)", of, of),
      f("a IN (b)", of, of)) ++ numbers.flatMap { n =>
      Seq(f("a * b", of, n), g("a / b", of, n), f("b * a", of, n), g("try_divide(a, b)", of, n),
        f("try_multiply(a, b)", of, n))
    }
  } ++ Seq(
    f("extract(YEAR FROM a)", months), f("extract(MONTH FROM a)", months),
    f("extract(DAY FROM a)", micros), f("extract(HOUR FROM a)", micros),
    f("extract(MINUTE FROM a)", micros), f("extract(SECOND FROM a)", micros),
    f("make_ym_interval(a, b)", "INT" -> Seq("0", "1", "-1", "178956970", "178956971", "NULL"),
      "INT" -> Seq("0", "7", "8", "-2147483648", "NULL")),
    f("make_dt_interval(a, b, c, d)",
      "INT" -> Seq("0", "1", "-1", "106751991", "106751992", "NULL"),
      "INT" -> Seq("0", "4", "-30", "2147483647"), "INT" -> Seq("0", "59", "-61"),
      "DECIMAL(18,6)" -> Seq("0", "54.775807", "54.775808", "-0.000001", "999999999999.999999",
        "NULL")))

  // ---- casts ------------------------------------------------------------------------------------

  private def quoted(texts: Seq[String]): Seq[String] =
    texts.map(t => "'" + t.replace("\\", "\\\\").replace("'", "\\'") + "'")

  private val yearTexts = quoted(Seq("1", "-1", "+7", "|3", "--1", "0", "-0", "1-2", "-1-2",
      "+1-11",
      "1-12", "0-0", " 1-2 ", "\t5\n", "1 - 2", "178956970-7", "178956970-8", "178956970",
      "178956971", "-178956971", "2147483647", "2147483648", "-2147483648", "99999999999",
      "99999999999999999999", "1-999999999999999999999",
      "INTERVAL '1-2' YEAR TO MONTH", "interval -'1-2' year to month",
      "INTERVAL '-1-2' YEAR TO MONTH",
      "INTERVAL -'-1-2' YEAR TO MONTH", "INTERVAL '5' YEAR", "INTERVAL '-5' MONTH",
      "interval  +'5'\tmonth", "INTERVAL '5' DAY", "INTERVAL '1-2' MONTH", "INTERVAL 5 MONTH", "",
      " ",
      "x", "1-", "-2", "1-2-3", "1.5", "١", "INTERVAL '5' ſecond", "1\n", "ınterval '1' year")) :+
    "NULL"
  private val dayTexts = quoted(Seq("0", "-0", "1", "-1", "+5", "|2", "10", "999999999",
      "9999999999",
      "106751991", "106751992", "1.5", "-0.5", "-1.5", "0.123456789", "0.1234567891", ".5", "1.",
      "9223372036854", "9223372036854.775807", "9223372036854.775808", "-9223372036854.775808",
      "9223372036855", "999999999999", "1234567890123", "12345678901234", "1 2", "1 23", "1 24",
      "-1 2",
      "1  2", "1 2:3", "1 02:59", "1 2:60", "1 2:3:4", "1 02:03:04.5", "-1 02:03:04.000001",
      "106751991 04:00:54.775807", "106751991 04:00:54.775808", "-106751991 04:00:54.775808",
      "106751992 0:0:0", "1 2:3:60", "1 2:3:4.1234567899", "-0 00:00:00.5", "0 00:00:00", "5:6",
      "-5:6",
      "25:59", "2562047788:00", "2562047789:00", "5:6:7", "5:6:7.89", "-5:60:7", "59:59.999999",
      "-0:00.5", "153722867280:54", "153722867281:00", "INTERVAL '1 2:3:4' DAY TO SECOND",
      "interval -'1 2:3:4.5' day to second", "INTERVAL -'-1 2' DAY TO HOUR",
      "INTERVAL '1 2:3' DAY TO MINUTE", "INTERVAL '5:6' HOUR TO MINUTE",
      "INTERVAL '5:6:7.8' HOUR TO SECOND", "INTERVAL '5:6.7' MINUTE TO SECOND", "INTERVAL '5' DAY",
      "INTERVAL -'-5' HOUR", "INTERVAL '5' MINUTE", "INTERVAL '-0.5' SECOND", "INTERVAL '5.5' HOUR",
      "INTERVAL '5' YEAR", "INTERVAL 5 DAY", "INTERVAL'5' DAY", "INTERVAL '5'  DAY  TO  HOUR", "",
      "x",
      "1:2:3:4", "é")) :+ "NULL"

  private val casts = yearUnits.flatMap { to =>
    Seq(f(s"CAST(a AS INTERVAL $to)", "STRING" -> yearTexts),
      f(s"TRY_CAST(a AS INTERVAL $to)", "STRING" -> yearTexts.take(12)),
      f("CAST(a AS STRING)", s"INTERVAL $to" -> years),
      f(s"CAST(a AS INTERVAL $to)", months))
  } ++ dayUnits.flatMap { to =>
    Seq(f(s"CAST(a AS INTERVAL $to)", "STRING" -> dayTexts),
      f("CAST(a AS STRING)", s"INTERVAL $to" -> days),
      f(s"CAST(a AS INTERVAL $to)", micros))
  } ++ Seq("YEAR" -> years, "MONTH" -> years, "DAY" -> days, "HOUR" -> days, "MINUTE" -> days,
    "SECOND" -> days).flatMap { case (unit, values) =>
    Seq("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(5,1)", "DECIMAL(20,6)").map(to =>
      g(s"CAST(a AS $to)", s"INTERVAL $unit" -> values)) ++ Seq(
      "TINYINT" -> Seq("0", "-128", "NULL"), "SMALLINT" -> Seq("7", "-32768"),
      "INT" -> Seq("0", "-7", "178956970", "178956971", "2147483647", "-2147483648", "NULL"),
      "BIGINT" -> Seq("0", "106751991", "106751992", "178956971", "2147483648",
        "9223372036854775807", "NULL"),
      "DECIMAL(10,3)" -> Seq("0", "0.5", "-0.5", "1.0416", "9999999.999", "NULL"),
      "DECIMAL(38,2)" -> Seq("99999999999999999999999999999999.99", "-178956970.67")).map(from =>
      f(s"CAST(a AS INTERVAL $unit)", from))
  } ++ Seq(
    f("CAST(a AS STRING)",
      "ARRAY<INTERVAL MONTH>" ->
        Seq("array(INTERVAL '5' MONTH, NULL)", "array()", "NULL")),
    f("CAST(a AS STRING)",
      "STRUCT<x: INTERVAL DAY TO SECOND, y: INT>" ->
        Seq("named_struct('x', INTERVAL '-5' SECOND, 'y', 1)", "named_struct('x', NULL, 'y', 2)")),
    f("CAST(a AS STRING)",
      "MAP<STRING, INTERVAL YEAR>" ->
        Seq("map('k', INTERVAL '2' YEAR, 'l', NULL)", "NULL")),
    f("CAST(a AS ARRAY<STRING>)", "ARRAY<INTERVAL HOUR>" -> Seq("array(INTERVAL '5' HOUR, NULL)")),
    f("CAST(a AS ARRAY<INTERVAL DAY>)",
      "ARRAY<INTERVAL DAY TO SECOND>" ->
        Seq("array(INTERVAL '-36' HOUR, NULL)")),
    f("CAST(a AS ARRAY<BIGINT>)", "ARRAY<INTERVAL SECOND>" -> Seq("array(INTERVAL '-1.5' SECOND)")),
    f("transform(a, x -> x + INTERVAL '1' MONTH)",
      "ARRAY<INTERVAL MONTH>" ->
        Seq("array(INTERVAL '5' MONTH, NULL)")),
    f("array_sort(a)",
      "ARRAY<INTERVAL MONTH>" ->
        Seq("array(INTERVAL '5' MONTH, NULL, INTERVAL '-5' MONTH)")),
    f("array_max(a)",
      "ARRAY<INTERVAL SECOND>" ->
        Seq("array(INTERVAL '5' SECOND, NULL, INTERVAL '-5' SECOND)")))

  // ---- instants ---------------------------------------------------------------------------------

  private val dates = Seq("'1970-01-01'", "'2000-02-29'", "'2020-12-31'", "'0001-01-01'",
    "'9999-12-31'", "NULL")
  private val times = Seq("'1970-01-01 00:00:00'", "'2020-03-08 01:59:59'", "'2020-03-07 02:30:00'",
    "'2020-11-01 01:30:00'", "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'",
    "'2020-01-31 10:00:00.123456'", "'2020-10-25 02:30:00'", "NULL")
  private val fewMonths = "INTERVAL YEAR TO MONTH" -> years.filterNot(_.contains("21474836"))
  private val fewDays = "INTERVAL DAY TO SECOND" -> days

  /** From NULL Spark subtracts without negating first; the engine computes all arguments. */
  private val uncomputed = Seq("NULL\t-9223372036854775808\t")

  private val instants = Seq(
    z("a + b", "TIMESTAMP" -> times, fewMonths), z("a - b", "TIMESTAMP" -> times, fewMonths),
    z("a + b", "TIMESTAMP" -> times, fewDays),
    z("a - b", "TIMESTAMP" -> times, fewDays).copy(without = uncomputed),
    f("a + b", "TIMESTAMP_NTZ" -> times, fewMonths),
    f("a - b", "TIMESTAMP_NTZ" -> times, fewDays).copy(without = uncomputed),
    f("a + b", "DATE" -> dates, months), f("a - b", "DATE" -> dates, fewMonths),
    z("a + b", "DATE" -> dates, fewDays), f("a + b", "DATE" -> dates, "INTERVAL DAY" -> days),
    z("a - b", "TIMESTAMP" -> times, "TIMESTAMP" -> times),
    f("a - b", "TIMESTAMP_NTZ" -> times, "TIMESTAMP_NTZ" -> times),
    z("a - b", "TIMESTAMP" -> times, "DATE" -> dates),
    f("a - b", "DATE" -> (dates ++ Seq("CAST('-5877641-06-23' AS DATE)", "'+5881580-07-11'")),
      "DATE" -> dates))

  // ---- times of day -----------------------------------------------------------------------------

  private val on = Seq("spark.sql.timeType.enabled" -> "true")
  private def t(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns, conf = on)
  private def tg(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns, differs = true, conf = on)

  private val clocks = Seq("TIME'00:00:00'", "TIME'00:00:00.000001'", "TIME'01:02:03.45'",
    "TIME'12:00:00'", "TIME'12:34:56.789012'", "TIME'23:59:59'", "TIME'23:59:59.999999'", "NULL")
  private val ofDay = "TIME(6)" -> clocks
  private val units =
    Seq("'HOUR'", "'minute'", "'Second'", "'MILLISECOND'", "'MICROSECOND'", "'DAY'",
      "''", "NULL")
  private val clockTexts = quoted(Seq("00:00", "0:0", "12:34", "12:34:56", "1:2:3", "12:34:56.7",
      "12:34:56.123456", "12:34:56.1234567", "12:34:56.", "T12:34:56", " 12:34 ", "\t12:34\n",
      "23:59:59.999999", "24:00", "23:60", "23:59:60", "12", "12:", ":12", "-1:00", "+1:00",
      "12:34Z",
      "12:34:56+01:00", "12:34:56 UTC", "2020-01-01 12:34", "12:34 AM", "12:34 PM", "1:02pm",
      "01:02 am",
      "13:00 PM", "0:30 AM", "12:00AM", "12:00PM", "11:59:59.999999 PM", "PM", "12:34 XM", "", " ",
      "x",
      "12:34:56.1234567890", "12:3a", "12:34 PM ", "１２:34", "12:34 ＡM", "noon")) :+ "NULL"
  private val clockPatterns =
    Seq("HH:mm:ss", "HH:mm", "HH.mm.ss.SSSSSS", "hh:mm a", "H:m:s", "HHmmss",
      "mm:ss")

  private val times2 = Seq(
    t("hour(a)", ofDay), t("minute(a)", ofDay), t("second(a)", ofDay),
    t("extract(SECOND FROM a)", ofDay), t("extract(SECOND FROM a)", "TIME(3)" -> clocks),
    t("extract(SECOND FROM a)", "TIME(0)" -> clocks), t("extract(HOUR FROM a)", ofDay),
    t("a < b", ofDay, ofDay), t("a <=> b", ofDay, ofDay), t("greatest(a, b)", ofDay, ofDay),
    t("hash(a)", ofDay), t("xxhash64(a)", ofDay), t("coalesce(a, b)", ofDay, ofDay),
    t("a IN (b, TIME'12:00:00')", ofDay, ofDay), t("a - b", ofDay, ofDay),
    tg("a + b", ofDay, micros), tg("a - b", ofDay, micros).copy(without = uncomputed),
    tg("a + b", "TIME(0)" -> clocks, "INTERVAL HOUR" -> days),
    tg("a + b", "TIME(2)" -> clocks, "INTERVAL SECOND" -> days),
    tg("time_trunc(b, a)", ofDay, "STRING" -> units),
    tg("time_diff(c, a, b)", ofDay, ofDay, "STRING" -> units),
    tg("make_time(a, b, c)", "INT" -> Seq("0", "23", "24", "-1", "NULL"),
      "INT" -> Seq("0", "59", "60"),
      "DECIMAL(16,6)" -> Seq("0", "59.999999", "60", "-0.5", "-1", "4294967296",
        "9999999999.999999",
        "NULL")),
    f("make_timestamp_ntz(a, b)", "DATE" -> dates, ofDay).copy(conf = on),
    t("CAST(a AS STRING)", ofDay), t("CAST(a AS STRING)", "TIME(0)" -> clocks),
    t("CAST(a AS TIME(6))", "STRING" -> clockTexts),
    t("CAST(a AS TIME(3))", "STRING" -> clockTexts),
    t("TRY_CAST(a AS TIME(6))", "STRING" -> clockTexts),
    tg("to_time(a)", "STRING" -> clockTexts), tg("try_to_time(a)", "STRING" -> clockTexts),
    t("CAST(a AS ARRAY<STRING>)", "ARRAY<TIME(6)>" -> Seq("array(TIME'01:00:00', NULL)")),
    t("CAST(a AS ARRAY<TIME(0)>)", "ARRAY<TIME(6)>" -> Seq("array(TIME'01:00:00.5', NULL)")),
    t("CAST(a AS STRING)",
      "STRUCT<x: TIME(3), y: INTERVAL MONTH>" ->
        Seq("named_struct('x', TIME'01:00:00.5', 'y', INTERVAL '3' MONTH)", "NULL")),
    t("array_sort(a)", "ARRAY<TIME(6)>" -> Seq("array(TIME'01:00:00', NULL, TIME'00:00:01')"))) ++
    (0 to 6).map(p => t(s"CAST(a AS TIME($p))", ofDay)) ++
    Seq("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(14,9)", "DECIMAL(5,0)",
      "DECIMAL(4,1)").map(to => tg(s"CAST(a AS $to)", ofDay)) ++
    clockPatterns.flatMap(p =>
      Seq(tg(s"to_time(a, '$p')", "STRING" -> clockTexts),
        tg(s"try_to_time(a, '$p')", "STRING" -> clockTexts)))

  /** What would be a number to the engine, or has no kernel. */
  val refused: Seq[FunctionCase] = Seq(
    f("to_json(named_struct('a', a))", months), f("a div b", months, months),
    f("to_json(array(a))", micros), t("to_json(named_struct('a', a))", ofDay),
    f("format_string('%s', a)", months), t("to_time(a, 'yyyy HH')", "STRING" -> Seq("'x'")))

  val families: Seq[(String, Seq[FunctionCase])] = Seq(
    "intervals" -> (arithmetic ++ instants),
    "interval_casts" -> casts,
    "times_of_day" -> times2)
}
