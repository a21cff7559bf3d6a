package org.apache.spark.sql.coffer.translate

/** The calls of built-in functions whose answers the engine's tests replay, by family. */
private[translate] object FunctionCases {
  private val texts = Seq("''", "'a'", "'abc'", "'Hello World'", "'  pad  '", "'héllo wörld'",
    "'日本語'", "'😀 smile'", "'a,b,,c'", "'Robert'", "'Rupert'", "'Tymczak'", "'Pfister'", "'1A'",
    "'it''s'", "'100%'", "'a+b c%20d'", "NULL")
  private val short = Seq("''", "'a'", "'b'", "','", "'kitten'", "'sitting'", "'日本'", "'a,b'",
    "NULL")
  private val bytes =
    Seq("X''", "X'00'", "X'616263'", "X'C3A9'", "X'FF'", "X'0102030405060708090A'",
      "CAST(repeat('Spark SQL ', 9) AS BINARY)", "NULL")
  private val ints = Seq("0", "1", "-1", "2", "7", "255", "70000", "2147483647", "-2147483648",
    "NULL")
  private val small = Seq("0", "1", "2", "3", "-1", "-2", "5", "20", "21", "2147483647", "NULL")
  private val longs = Seq("0", "1", "-1", "13", "-13", "32768", "32769", "5000000000",
    "9223372036854775807", "-9223372036854775808", "NULL")
  private val doubles = Seq("0", "'-0.0'", "1", "-1", "0.5", "-0.5", "1.5", "2.5", "-2.5", "0.1",
    "1e-10", "-1e-10", "1e-300", "4.9e-324", "3", "10", "22.5", "-30", "100.125", "709", "711",
    "-711", "1e16", "-1e300", "1.7976931348623157e308", "'NaN'", "'Infinity'", "'-Infinity'",
    "12332.123456", "1234567.891", "0.005", "0.015", "1e7", "123456789012345.675", "NULL")
  private val many = doubles ++ (1 to 120).map(i => s"${i * 0.0173 - 1.0}") ++
    (1 to 60).map(i => s"${i * 1.37 - 40.0}")

  private def f(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns)

  private val mathematics = Seq("acos", "asin", "atan", "sinh", "cosh", "tanh", "acosh", "asinh",
    "atanh", "cbrt", "expm1", "log1p", "log2", "rint", "degrees", "radians").map(n =>
    f(s"$n(a)", "DOUBLE" -> many)) ++ Seq(
    f("atan2(a, b)", "DOUBLE" -> doubles, "DOUBLE" -> doubles),
    f("hypot(a, b)", "DOUBLE" -> doubles, "DOUBLE" -> doubles),
    f("nanvl(a, b)", "DOUBLE" -> doubles, "DOUBLE" -> Seq("1", "'NaN'", "NULL")),
    f("nanvl(a, b)", "FLOAT" -> doubles, "FLOAT" -> Seq("1", "'NaN'", "NULL")),
    f("factorial(a)", "INT" -> small),
    f("width_bucket(a, b, c, d)", "DOUBLE" -> doubles, "DOUBLE" -> Seq("0", "-5", "10", "'NaN'"),
      "DOUBLE" -> Seq("0", "10", "3.5", "'Infinity'"), "BIGINT" -> Seq("0", "5", "-1", "NULL")),
    f("bit_count(a)", "INT" -> ints),
    f("bit_count(a)", "BIGINT" -> longs),
    f("bit_count(a)", "BOOLEAN" -> Seq("true", "false", "NULL")),
    f("bit_count(a)", "TINYINT" -> Seq("-128", "127", "-1")),
    f("bit_get(a, b)", "BIGINT" -> longs, "INT" -> Seq("0", "1", "31", "63", "64", "-1", "NULL")),
    f("getbit(a, b)", "SMALLINT" -> Seq("5", "-1"), "INT" -> Seq("0", "15", "16")),
    f("bitmap_bucket_number(a)", "BIGINT" -> longs),
    f("bitmap_bit_position(a)", "BIGINT" -> longs),
    f("bitmap_count(a)", "BINARY" -> bytes))

  private val encodings = Seq(
    f("base64(a)", "BINARY" -> bytes),
    f("unbase64(a)",
      "STRING" -> (texts ++ Seq("'YWJj'", "'YWI='", "'YQ=='", "'YQ='", "'YQ'",
        "'Y'", "'=YQ'", "'YWJj\\nYWJj'", "'YQ==YQ=='", "'YQ==\\n'", "'YQ===='", "'YWI=='",
        "'YQ==\\n=='"))),
    f("to_binary(a, 'base64')",
      "STRING" -> (texts ++ Seq("'YWJj'", "'YWI='", "'YQ=='", "'YQ='", "'YQ'", "'Y'", "'=YQ'",
        "'YW Jj\\nYWJj'", "'YQ==YQ=='", "'YQ==\\n'", "'YQ===='", "'YQ?='", "'YWJjYQ'",
        "'YWJjY'", "'YW\\u00a0Jj'", "'YW\\u2003Jj'", "'YW\\u001cJj'", "'YW-Jj_'"))),
    f("hex(a)", "BIGINT" -> longs), f("hex(a)", "STRING" -> texts), f("hex(a)", "BINARY" -> bytes),
    f("unhex(a)", "STRING" -> (texts ++ Seq("'F'", "'0fF'", "'616G'"))),
    f("bin(a)", "BIGINT" -> longs),
    f("conv(a, b, c)",
      "STRING" -> Seq("''", "'100'", "'-10'", "' 7f '", "'zZ'", "'9z'", "'-'",
        "'18446744073709551615'", "'18446744073709551616'", "'-9223372036854775808'",
        "'FFFFFFFFFFFFFFFF'", "'é'", "NULL"),
      "INT" -> Seq("2", "10", "16", "36", "37", "1", "NULL"),
      "INT" -> Seq("2", "10", "-10", "16", "-16", "36", "-37", "NULL"))) ++
    Seq("UTF-8", "utf-8", "US-ASCII", "ISO-8859-1", "UTF-16BE", "UTF-16LE", "UTF-16", "UTF-32")
      .flatMap(cs =>
        Seq(
          f(s"encode(a, '$cs')", "STRING" -> texts),
          f(s"decode(a, '$cs')",
            "BINARY" -> (bytes ++ Seq("X'FEFF0061'", "X'FFFE6100'",
              "X'00000061'", "X'0000FEFF00000061'", "X'FFFE000061000000'", "X'D800'",
              "X'D83DDE00'"))))
      ) ++ Seq(
      f("url_encode(a)", "STRING" -> texts),
      f("url_decode(a)",
        "STRING" -> (texts ++ Seq("'%'", "'%4'", "'%zz'", "'%E6%97%A5'",
          "'%41+%42'"))),
      f("try_url_decode(a)", "STRING" -> Seq("'%'", "'%41'", "NULL")),
      f("is_valid_utf8(a)", "STRING" -> texts), f("make_valid_utf8(a)", "STRING" -> texts),
      f("validate_utf8(a)", "STRING" -> texts), f("try_validate_utf8(a)", "STRING" -> texts),
      f("to_binary(a, 'utf-8')", "STRING" -> texts),
      f("try_to_binary(a, 'utf-8')", "STRING" -> texts),
      f("try_to_binary(a, 'hex')", "STRING" -> (texts ++ Seq("'F'", "'0fF'", "'616G'"))))

  private val arrays = Seq("array()", "array(1)", "array(1, NULL, -7)", "NULL")

  private val hashes = Seq("md5", "sha1", "crc32").map(n => f(s"$n(a)", "BINARY" -> bytes)) ++ Seq(
    f("sha2(a, b)", "BINARY" -> bytes, "INT" -> Seq("0", "224", "256", "384", "512", "1", "NULL"))
  ) ++ Seq("hash", "xxhash64").flatMap { n =>
    Seq(
      f(s"$n(a)", "INT" -> ints), f(s"$n(a)", "BIGINT" -> longs),
      f(s"$n(a)",
        "STRING" -> (texts :+
          "repeat('0123456789abcdef', 5)")), f(s"$n(a)", "BINARY" -> bytes),
      f(s"$n(a)", "DOUBLE" -> doubles), f(s"$n(a)", "FLOAT" -> doubles),
      f(s"$n(a)", "BOOLEAN" -> Seq("true", "false", "NULL")),
      f(s"$n(a)", "SMALLINT" -> Seq("-7", "300")), f(s"$n(a)", "TINYINT" -> Seq("-7", "30")),
      f(s"$n(a)", "DATE" -> Seq("'2020-02-29'", "NULL")),
      f(s"$n(a)", "TIMESTAMP" -> Seq("'2020-02-29 01:02:03'", "NULL")),
      f(s"$n(a)", "DECIMAL(10,2)" -> Seq("1.5", "-999.99", "NULL")),
      f(s"$n(a)",
        "DECIMAL(38,2)" -> Seq("0", "1.27", "1.28", "-1.28", "-1.29", "327.67", "327.68",
          "99999999999999999999", "-12345678901234567890", "NULL")),
      f(s"$n(a, b, 'x')", "INT" -> ints, "STRING" -> short),
      f(s"$n(a)", "ARRAY<INT>" -> arrays),
      f(s"$n(a)",
        "STRUCT<x: INT, y: STRING>" -> Seq("named_struct('x', 1, 'y', 'z')",
          "named_struct('x', NULL, 'y', '')", "NULL")))
  }

  private val strings = Seq(
    f("soundex(a)", "STRING" -> texts), f("quote(a)", "STRING" -> texts),
    f("levenshtein(a, b)", "STRING" -> short, "STRING" -> short),
    f("levenshtein(a, b, c)", "STRING" -> short, "STRING" -> short,
      "INT" -> small.filter(_ != "NULL")),
    f("find_in_set(a, b)", "STRING" -> short, "STRING" -> texts),
    f("overlay(a PLACING b FROM c FOR d)", "STRING" -> texts, "STRING" -> Seq("''", "'_'", "'日本'"),
      "INT" -> small, "INT" -> small),
    f("overlay(a PLACING b FROM c)", "STRING" -> texts, "STRING" -> short, "INT" -> ints),
    f("overlay(a PLACING b FROM c FOR d)", "BINARY" -> bytes, "BINARY" -> bytes, "INT" -> small,
      "INT" -> small),
    f("elt(a, b, c)", "INT" -> small, "STRING" -> short, "STRING" -> Seq("'x'", "NULL")),
    f("elt(a, b, c)", "INT" -> small, "BINARY" -> bytes, "BINARY" -> Seq("X'00'")),
    f("luhn_check(a)",
      "STRING" -> (texts ++ Seq("'8112189876'", "'79927398713'", "'79927398714'",
        "'0'", "' 0'"))),
    f("split_part(a, b, c)", "STRING" -> texts, "STRING" -> short, "INT" -> small),
    f("format_number(a, b)", "DOUBLE" -> doubles, "INT" -> small.filterNot(_.length > 3)),
    f("format_number(a, b)", "FLOAT" -> doubles, "INT" -> small.filterNot(_.length > 3)),
    f("format_number(a, b)",
      "DOUBLE" -> Seq("2.0E23", "-2.0E23", "2.0E-3", "8.41E21",
        "2.2250738585072014E-308", "4.9E-324", "1.0E23", "5.0E-324"),
      "INT" -> Seq("0", "2", "30", "339", "340", "341", "400")),
    f("format_number(a, b)", "BIGINT" -> longs, "INT" -> Seq("0", "3", "-1", "340", "341")),
    f("format_number(a, b)",
      "DECIMAL(20,4)" -> Seq("0", "1.5", "-0.0005", "1234567.8855",
        "2.5", "3.5", "0.05", "-9999999999999999.9999"),
      "INT" -> Seq("0", "1", "2", "3", "4", "6", "340", "341")),
    f("assert_true(a)", "BOOLEAN" -> Seq("true", "false", "NULL")),
    f("assert_true(a, b)", "BOOLEAN" -> Seq("true", "false"), "STRING" -> short),
    f("raise_error(a)", "STRING" -> short))

  private val dates = Seq("'1970-01-01'", "'1969-12-31'", "'2000-02-29'", "'1900-02-28'",
    "'2020-12-31'", "'2021-01-03'", "'2024-08-15'", "'0001-01-01'", "'9999-12-31'",
    "'1582-10-10'", "'2023-11-30'", "NULL")
  private val times = Seq("'1970-01-01 00:00:00'", "'1969-12-31 23:59:59.999999'",
    "'2020-03-08 01:59:59'", "'2020-03-08 03:00:00'", "'2020-03-07 02:30:00'",
    "'2020-11-01 01:30:00'", "'2024-08-15 12:34:56.789'", "'0001-01-01 00:00:00'",
    "'9999-12-31 23:59:59.999999'", "'1883-11-18 12:00:00'", "'2150-07-01 00:00:00'",
    "'2020-01-31 10:00:00.123456'", "'2020-03-29 02:30:00'", "'2020-10-25 02:30:00'", "NULL")
  private val zones = Seq("'UTC'", "'America/Los_Angeles'", "'+05:30'", "'Asia/Kolkata'", "'PST'",
    "'Mars/Olympus'", "''", "NULL")
  private def z(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns, zoned = true)

  private def made(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns, zoned = true, differs = true)

  private val units = Seq("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK",
    "MONTH", "QUARTER", "YEAR")
  private val intervals = Seq("INTERVAL '1' MONTH", "INTERVAL '-13' MONTH", "INTERVAL '2' YEAR",
    "INTERVAL '1' DAY", "INTERVAL '-36:30' HOUR TO MINUTE", "INTERVAL '0.000001' SECOND",
    "make_interval(0, 1, 0, -1, 5, 0, 0.5)")

  private val datetimes = Seq(
    f("next_day(a, b)", "DATE" -> dates,
      "STRING" -> Seq("'MO'", "'tue'", "'Sunday'", "'THURS'",
        "''", "'S'", "NULL")),
    f("monthname(a)", "DATE" -> dates), f("dayname(a)", "DATE" -> dates),
    f("extract(YEAROFWEEK FROM a)", "DATE" -> dates),
    z("from_utc_timestamp(a, b)", "TIMESTAMP" -> times, "STRING" -> zones),
    z("to_utc_timestamp(a, b)", "TIMESTAMP" -> times, "STRING" -> zones),
    z("from_utc_timestamp(a, 'Europe/Paris')", "TIMESTAMP" -> times),
    f("convert_timezone(a, b, c)", "STRING" -> zones, "STRING" -> zones, "TIMESTAMP_NTZ" -> times),
    z("convert_timezone('Asia/Tokyo', a)", "TIMESTAMP_NTZ" -> times),
    made("make_timestamp(a, b, c, d, e, f)",
      "INT" -> Seq("2020", "2021", "-5", "10000", "300000",
        "NULL"), "INT" -> Seq("0", "3", "11", "13"), "INT" -> Seq("0", "1", "8", "31"),
      "INT" -> Seq("0", "1", "2", "23", "24"), "INT" -> Seq("0", "30", "60"),
      "DECIMAL(16,6)" -> Seq("0", "59.999999", "60", "60.5", "-1", "61")),
    made("make_timestamp(2020, 3, 8, 1, a, b)", "INT" -> Seq("30", "60"),
      "DECIMAL(16,6)" -> Seq("4295", "4294.967296", "4294967300", "4294967300.25", "4294967356",
        "4294967356.5", "-4294967295", "9999999999.999999", "-0.5", "59.5")),
    made("make_timestamp(a, 3, 8, 2, 30, b, c)", "INT" -> Seq("2020", "300000000", "NULL"),
      "DECIMAL(16,6)" -> Seq("0", "7.25", "60", "60.5", "61"), "STRING" -> zones),
    made("make_timestamp(2020, 3, 8, 2, 30, a, 'Mars/Olympus')", "DECIMAL(16,6)" -> Seq("0", "61")),
    f("make_timestamp_ntz(a, b, c, d, e, f)", "INT" -> Seq("2020", "2021", "NULL"),
      "INT" -> Seq("2", "13"), "INT" -> Seq("28", "29", "31"), "INT" -> Seq("0", "25"),
      "INT" -> Seq("0", "61"), "DECIMAL(16,6)" -> Seq("0", "59.5", "60")),
    f("try_make_timestamp(a, b, 1, 1, 1, 1)", "INT" -> Seq("2020", "NULL"),
      "INT" -> Seq("2", "13")),
    f("make_timestamp_ltz(a, b, 1, 1, 1, 1)", "INT" -> Seq("2020", "NULL"),
      "INT" -> Seq("2", "13")),
    f("timestamp_seconds(a)",
      "DECIMAL(20,8)" -> Seq("0", "1.5", "-1.123456", "1.12345678",
        "999999999999", "NULL")),
    f("timestamp_seconds(a)", "DOUBLE" -> doubles), f("timestamp_seconds(a)", "FLOAT" -> doubles),
    f("timestamp_seconds(a)", "INT" -> ints), f("timestamp_seconds(a)", "BIGINT" -> longs),
    z("window(a, '10 minutes', '5 minutes')", "TIMESTAMP" -> times.filter(_ => false))
  ).filter(_.columns.forall(_._2.nonEmpty)) ++ units.flatMap { u =>
    Seq(
      z(s"timestampadd($u, a, b)",
        "BIGINT" -> Seq("0", "1", "-1", "25", "100000", "3000000000",
          "NULL"), "TIMESTAMP" -> times),
      f(s"timestampadd($u, a, b)", "BIGINT" -> Seq("1", "-7"), "TIMESTAMP_NTZ" -> times),
      z(s"timestampdiff($u, a, b)", "TIMESTAMP" -> times, "TIMESTAMP" -> times))
  } ++ Seq(
    z("timestampadd(DAYOFYEAR, a, b)", "BIGINT" -> Seq("1", "-400"), "TIMESTAMP" -> times)
  ) ++ intervals.flatMap { i =>
    Seq(
      z(s"a + $i", "TIMESTAMP" -> times), z(s"a - $i", "TIMESTAMP" -> times),
      f(s"a + $i", "TIMESTAMP_NTZ" -> times))
  } ++ intervals.take(4).flatMap(i =>
    Seq(f(s"a + $i", "DATE" -> dates),
      f(s"a - $i", "DATE" -> dates)))

  private val stamps = Seq("'2020-02-29'", "'2020-02-30'", "'2020-02-29 01:02:03'",
    "'2020-02-29 01:02:03.5'", "'2020-02-29 01:02:03.123456789'", "'29/02/2020'", "'20200229'",
    "'20200229010203'", "'202002290102035'", "'2020022901023'", "'2020-2-9'", "' 2020-02-29'",
    "'2020-02-29 '", "'+12020-02-29'",
    "'12020-02-29'", "'-0044-03-15'", "'0000-01-01'", "'Feb 29 2020'", "'feb 29 2020'",
    "'February 29 2020'", "'2020-03-08 02:30:00'", "'02:30 PM'", "'12:00 AM'", "'12:00 am'",
    "'13:00 PM'", "'2020-01-01T10:11:12'", "'23:59'", "'24:00'", "''", "'x'", "NULL")
  private val reads = Seq("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd HH:mm:ss.SSS",
    "yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "dd/MM/yyyy", "yyyyMMdd", "yyyyMMddHHmmss", "yyyy-M-d",
    "yyyyMMddHHmmssS", "yyyyMMddHHmmsS", "yyyyMMddHHmmssSS", "MMM d yyyy", "MMMM dd yyyy",
    "hh:mm a", "yyyy-MM-dd''T''HH:mm:ss", "HH:mm", "yyyy")
  private val writes = Seq("yyyy-MM-dd", "yy/M/d H:m:s", "EEE, dd MMM yyyy hh:mm:ss a",
    "EEEE MMMM d",
    "D DDD Q QQ", "K k KK kk h", "SSSSSSSSS S", "yyyyMMdd''T''HHmmss.SSS", "LLL LL L")

  private val javaTimes = writes.flatMap { p =>
    Seq(
      z(s"date_format(a, '${p.replace("''", "\\'")}')", "TIMESTAMP" -> times),
      z(s"from_unixtime(a, '${p.replace("''", "\\'")}')",
        "BIGINT" -> Seq("0", "-1",
          "1583659800", "253402300799", "-62135596800", "99999999999", "NULL")))
  } ++ reads.flatMap { p =>
    val pattern = p.replace("''", "\\'")
    Seq(
      z(s"to_timestamp(a, '$pattern')", "STRING" -> stamps),
      z(s"try_to_timestamp(a, '$pattern')", "STRING" -> stamps),
      f(s"to_timestamp_ntz(a, '$pattern')", "STRING" -> stamps),
      f(s"to_date(a, '$pattern')", "STRING" -> stamps),
      z(s"unix_timestamp(a, '$pattern')", "STRING" -> stamps),
      z(s"to_unix_timestamp(a, '$pattern')", "STRING" -> stamps))
  } ++ Seq(
    z("unix_timestamp(a)", "TIMESTAMP" -> times), z("unix_timestamp(a)", "DATE" -> dates),
    f("unix_timestamp(a)", "TIMESTAMP_NTZ" -> times), z("unix_timestamp(a)", "STRING" -> stamps))

  private val subjects = Seq("''", "'a'", "'aaa'", "'abc'", "'ABC'", "'100-200, 300-400'",
    "'foo bar  baz'", "'line\\n'", "'line\\r\\n'", "'a.b.c'", "'user@example.com'", "'日本語 テキスト'",
    "'x😀y'", "'one1two22three333'", "'2024-08-15'", "',a,,b,'", "'Ab\\ncd'", "'\\u2028'", "'a\\r'",
    "'a\\r\\n\\r\\n'", "'n\\r\\u0085'", "NULL")
  private val expressions = Seq("a", "^a", "a$", "^$", "a*", "a+", "a|b", "(a)|(b)", "[a-c]+",
    "[^a-z]", ".", "^.*$", "\\\\d+", "(\\\\d+)-(\\\\d+)", "\\\\s+", "\\\\S+",
    "\\\\w+@\\\\w+\\\\.com",
    "(?i)abc", "(?i)[a-b]+", "(?s)b.c", "b.c", "\\\\.", "x{2,3}", "(o|w)+?", "[0-9]{1,3}$",
    "(?:fo+)(?<n>\\\\s)", "日本", "[\\\\w.]+", "\\\\p{Alpha}+", ",", "[,;]", "[-a]", "a?",
    "(\\\\d)(x)?",
    "\\\\u0061", "(?:one|two)\\\\d", "n$",
    "\\\\s$", "a\\\\s$", "[^a-z]$", "(?s).$", "\\\\r$", "(\\\\s)*$", "((x{1,10}){2,3}|o){1,20}")

  private val patterns = expressions.flatMap { p =>
    Seq(
      f(s"a RLIKE '$p'", "STRING" -> subjects),
      f(s"regexp_replace(a, '$p', '<$$0>')", "STRING" -> subjects),
      f(s"regexp_extract(a, '$p', b)", "STRING" -> subjects, "INT" -> Seq("0", "1")),
      f(s"regexp_extract_all(a, '$p', 0)", "STRING" -> subjects),
      f(s"regexp_instr(a, '$p')", "STRING" -> subjects),
      f(s"split(a, '$p')", "STRING" -> subjects),
      f(s"split(a, '$p', 2)", "STRING" -> subjects))
  } ++ Seq(
    f("regexp_replace(a, '(\\\\d+)-(\\\\d+)', '$2\\\\$$1')", "STRING" -> subjects),
    f("regexp_count(a, 'a')", "STRING" -> subjects))

  /** What the engine would answer otherwise or not at all. */
  val refused: Seq[FunctionCase] = {
    val (text, time) = ("STRING" -> Seq("'a'"), "TIMESTAMP" -> Seq("'2020-01-01'"))
    Seq(
      f("regexp_instr(a, 'a', b)", text, "INT" -> Seq("NULL", "0")),
      f("split(a, '(?i)')", text),
      f("split(a, '(?i)', 2)", text),
      f("format_number(a, '#.0')", "INT" -> Seq("1")),
      f("timestampdiff(DAYOFYEAR, a, b)", time, time),
      f("to_timestamp(a, 'yyyy')", time),
      f("to_timestamp(a, 'yyyy')", "DATE" -> Seq("'2020-01-01'")),
      f(s"a RLIKE '${"(" * 60}x${")" * 60}'", text),
      f("a RLIKE '((a{100}){100}){100}'", text),
      f("a RLIKE '(a{900}|b{900}){9}'", text),
      FunctionCase(
        "encode(a, 'windows-1252')",
        Seq(text),
        conf = Seq("spark.sql.legacy.javaCharsets" -> "true")),
      f("decode(a, 'windows-1252')",
        "BINARY" -> Seq("X'41'"))) ++ IntervalCases.refused ++ TextCases.refused
  }

  val families: Seq[(String, Seq[FunctionCase])] = Seq(
    "mathematics" -> mathematics,
    "encodings" -> encodings,
    "hashes" -> hashes,
    "strings" -> strings,
    "datetimes" -> datetimes,
    "java_times" -> javaTimes,
    "patterns" -> patterns) ++ IntervalCases.families ++ TextCases.families
}
