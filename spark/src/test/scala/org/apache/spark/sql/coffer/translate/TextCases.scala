package org.apache.spark.sql.coffer.translate

/** Calls of functions over texts that have a form: JSON, URLs, masks, pictures of numbers. */
private[translate] object TextCases {
  private def f(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns)

  private def quoted(texts: Seq[String]): Seq[String] =
    texts.map(t => "'" + t.replace("\\", "\\\\").replace("'", "\\'") + "'")

  private val documents = quoted(Seq(
      "", " ", "null", "true", "tru", "truex", "true]", "1", "1 x", "1x", "-0", "-", "+1", "01",
      "1.", ".5",
      "1.50", "1e3", "-1.5E-7", "1e999", "-0.0", "12345678901234567890123", "1E", "NaN", "Infinity",
      "\"text\"", "'text'", "\"open", "[]", "{}", "[", "{", "]", "[1,2,3]", "[1,2,3", "[1,,2]",
      "[1,]",
      "[,1]", "[1 2]", "[1}", "[[1,2],[3,[4]],5]", "[{\"a\":1},{\"a\":2},{\"b\":3}]",
      "[{\"a\":[1,2]},{\"a\":[3]}]", "[{\"a\":\"x\"},{\"a\":null}]", "{\"a\":\"b\"}",
      "{'a':'it\"s'}",
      "{\"a\":1,\"b\":[1,2,{\"c\":\"d\"}],\"e\":{\"f\":null}}", "{\"a\":1,\"a\":2}",
      "{\"a\":null,\"a\":2}", "{\"a\":1,}", "{\"a\" 1}", "{a:1}", "{\"a\":1}garbage",
      "{\"a\":1} {\"a\":2}",
      "{\"a\":tru}", "{\"a\":1,\"b\":tru}", "{\"a\":{\"b\":{\"c\":[1.10,\"x\",true,null]}}}",
      "{\"a\":\"\\u0041\\n\\t\\/\\\"\\\\\\b\\f\\r\"}",
      "{\"a\":[\"\\u0041\\n\\t\\/\\\"\\\\\\u0001\"]}",
      "{\"a\":\"\\x\"}", "{\"a\":\"\\'\"}", "{\"a\":\"\\u00\"}", "{\"a\":\"\\ud83d\\ude00\"}",
      "{\"a\":[\"\\ud83d\\ude00 😀 é\"]}", "{\"a\":\"\\ud83d\"}",
      "{\"a\":[\"\\ud83d\",\"\\ude00\"]}",
      "{\"a\":\"\\ud83dx\"}", "{\"\\ud83d\":1}", "{\"a\":\"😀日本\"}", "{\"日本\":[\"😀\"]}",
      "{\"a\":\"line\nbreak\ttab\"}", "{\"a\":[\"line\nbreak\u0001\"]}", "/* c */ {\"a\":1}",
      "{\"a\":[1.0,100,1e2,1.0E10,0.001,0.0001,123456789.125,2e-3,2.0E23,-0,0]}",
      "\ufeff{\"a\":1}", "{\"a b\":1,\" c\":2,\"x.y\":3}", "[1,[2,[3,[4]]]]", "[[[1,2],[3]],[[4]]]",
      "{\"a\":[[1,2],[3]]}", "{\"a\":[{\"b\":[1,2]},{\"b\":[3]},{\"c\":4}]}", "{\"a\":[]}",
      "{\"a\":[[]],\"a\":[[1]]}", "{\"a\":{}}",
      "{\"k1\":1,\"k2\":{\"k3\":2},\"k4\":[{\"k5\":1}],\"k1\":3}",
      "\u00a0{\"a\":1}", "{\"a\":\u000b1}", "{\"a\":1.5e400}", "{\"a\":[1.5e400,-1e400]}",
      "{\"a\":true}",
      "{\"a\":false,\"b\":\"x\"}", "{\"b\":\"only b\"}")) ++ Seq(
    "concat(repeat('[', 1000), repeat(']', 1000))", "concat(repeat('[', 1001), repeat(']', 1001))",
    "concat('{\"a\":', repeat('9', 1000), '}')", "concat('{\"a\":', repeat('9', 1001), '}')",
    "concat('{\"a\":-', repeat('9', 1000), '}')", "concat('{\"a\":0.', repeat('9', 999), '}')",
    "concat('{\"a\":0.', repeat('9', 1000), '}')", "concat('[1e', repeat('0', 998), '2]')", "NULL")

  private val paths = Seq("$", "$.a", "$.b", "$.a.b.c", "$.*", "$.a.*", "$[*]", "$[0]", "$[1]",
    "$[2].b",
    "$[*].a", "$[0].a", "$.a[*]", "$.a[*].b", "$.a[*].b[*]", "$.a[0][1]", "$[*][*]", "$[*][*][*]",
    "$[0][*]", "$[1][*]", "$.b[2].c", "$['a']", "$['a b']", "$['x.y']", "$[ 0]", "$[0 ]", "$ .a",
    "$. a",
    "$.a ", "$.日本", "$.日本[0]", "$.a[10]", "a", "", "$.", "$..a", "$[a]", "$['*']", "$['a'",
    "$.a[*]x",
    "$.a[0]", "$.a[1]", "$.a.b", "$.e", "$.e.f", "$.k2.k3", "$.k4[0].k5")

  private val json = paths.map(p =>
    f(s"get_json_object(a, '${p.replace("'", "\\'")}')", "STRING" -> documents)) ++ Seq(
    f("get_json_object(a, b)", "STRING" -> documents.take(60),
      "STRING" -> (quoted(paths) :+ "NULL")),
    f("get_json_object(a, '$[99999999999999999999]')", "STRING" -> Seq("'[1]'", "NULL")),
    f("json_array_length(a)", "STRING" -> documents),
    f("json_object_keys(a)", "STRING" -> documents))

  private val addresses = quoted(Seq(
      "http://spark.apache.org/path?query=1",
      "http://user:pass@host.com:8080/p/a/t/h?x=1&y=2&x=3#frag",
      "https://example.com", "https://example.com?", "https://example.com?a=&b", "http://1.2.3.4/x",
      "http://1.2.3.400/x", "http://1.2.3/x", "http://[::1]:80/x", "http://[1:2:3:4:5:6:7:8]/",
      "http://[1:2:3:4:5:6:7]/", "http://[fe80::1%eth0]/", "http://[fe80::1%]/",
      "http://[::1.2.3.4]/",
      "http://[1::2::3]/", "http://[]/", "http://[::1/", "mailto:a@b.com", "mailto:",
      "urn:isbn:1#x",
      "file:///etc/passwd", "file:/etc/passwd", "//host/path", "/only/path?q=1", "relative?x=y", "",
      "#f",
      "?q", "http://", "http:///path", "http:", ":x", "1http://x", "ht+t.p-1://x", "http://a b/",
      "http://a/b c",
      "http://a/b%20c", "http://a/b%2", "http://a/%zz", "http://a%zz/", "http://a%20b/",
      "http://ho_st/x",
      "http://-host/", "http://host-/", "http://a..b/", "http://a.b./", "http://a.1/",
      "http://host:/x",
      "http://host:80a/", "http://host:99999999999/", "http://host:-1/", "http://@host/",
      "http://u@/",
      "http://a@b@c/", "http://日本.jp/路?ク=値#片", "http://host/\u00a0", "http://host/\u2003",
      "http://host/\u0085",
      "http://host/😀?😀=1", "http://host/|", "http://host/{a}", "http://host/a[1]?b[]=2",
      "http://host/<>",
      "http://host/a\"b", "http://host/^`", "http://host/a\\b", "http://host;a=b/",
      "http://host/;p?a=1;b=2",
      "http://h/p?&key=1", "http://h/p?akey=1&key=2&key=3", "http://h/p?key", "http://h/p?key=a=b",
      "http://h?x#y#z", "http://h/p?k%65y=1", "HTTP://HOST/P", "http://256.1.1.1/",
      "http://1.2.3.4.5/",
      "http://1.2.3.4:80/", "http://1.2.3.4x/", "http://a,b/", "jdbc:mysql://h/db",
      "http://h/p/../q/./r",
      "http://[::ffff:1.2.3.4]:8/", "http://[12345::]/", "http://[a:b]/", "http://]x/",
      "http://x]/",
      "http://[::1]x/", "a:b:c", "a/b:c", "%41:b", "http://u%40v@h/")) :+ "NULL"

  private val parts =
    Seq("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO", "host", "")

  private val urls = Seq("parse_url", "try_parse_url").flatMap { n =>
    parts.map(p => f(s"$n(a, '$p')", "STRING" -> addresses)) ++ Seq(
      f(s"$n(a, b)", "STRING" -> addresses, "STRING" -> (quoted(parts) :+ "NULL")),
      f(s"$n(a, 'QUERY', 'key')", "STRING" -> addresses),
      f(s"$n(a, 'QUERY', 'x')", "STRING" -> addresses),
      f(s"$n(a, 'QUERY', 'ク')", "STRING" -> addresses),
      f(s"$n(a, 'QUERY', '')", "STRING" -> addresses),
      f(s"$n(a, b, 'x')", "STRING" -> addresses, "STRING" -> Seq("'QUERY'", "'HOST'", "NULL")))
  }

  private val masked =
    quoted(Seq("", "abcd-EFGH-8765-4321", "AbCD123-@$#", "éÉß ǅ Ⅷ ⅷ ª ʰ", "日本 ١٢ ４２",
        "😀 𝐀 𝟘", "Ａａ", "ЖжΩω", "\u0000\n")) :+ "NULL"

  private val masks = Seq("mask(a)", "mask(a, 'Q')", "mask(a, 'Q', 'q')", "mask(a, 'Q', 'q', 'd')",
    "mask(a, 'Q', 'q', 'd', 'o')", "mask(a, NULL, 'q', 'd', 'o')", "mask(a, NULL, NULL, NULL, 'é')",
    "mask(a, NULL, NULL, NULL, NULL)").map(f(_, "STRING" -> masked))

  private val pictures = Seq("999", "000", "9990", "0999", "99.9", "00.0", "99.99", "9,999",
    "0,000",
    "9,999.99", "99G999D99", "$999", "$99.9", "S999", "999S", "MI999", "999MI", "999PR",
    "S$9,999.99",
    "$99.9MI", "9.9PR", ".99", "D99", "999.", "0", "9", "s999.9", "99999999999999999999",
    "99999999999999999999999999999999999.999", "$.9")
  private val numbers = quoted(Seq("", " ", "0", "1", "12", "123", "1234", "12345", "012", "1.5",
      "12.3",
      "12.34", ".5", "5.", ".", "-1", "+1", "1-", "1+", "<1>", "<1", "1>", "<12.5>", "1,234",
      "12,34", "1,234.56",
      "$12", "$1.5", "-$12.5", "$-12.5", "1 2", " 12 ", "1,2,3", ",123", "123,", "abc", "12a", "-",
      "$", "<>",
      "99999999999999999999", "-99999999999999999999", "１２", "é", "12😀", "1\t2", "- 1", "--1",
      "12.3-",
      "<<1>>", "$$1")) :+ "NULL"

  private val toNumbers = pictures.flatMap(p =>
    Seq("to_number", "try_to_number").map(n => f(s"$n(a, '$p')", "STRING" -> numbers))) :+
    f("to_number(a, CAST(NULL AS STRING))", "STRING" -> numbers.take(3))

  private val doubles = Seq("0", "'-0.0'", "1", "-1", "0.5", "1.5", "2.5", "-2.5", "0.1", "0.005",
    "0.015",
    "0.045", "1e-10", "4.9e-324", "100.125", "1e16", "-1e300", "1.7976931348623157e308", "'NaN'",
    "'Infinity'", "'-Infinity'", "12332.123456", "1234567.891", "9.995", "99.9999999", "999999.5",
    "2.0E-3", "8.41E21", "2.0E23", "0.3", "1.0E23", "NULL")
  private val longs = Seq("0", "1", "-1", "999", "1000", "-1234567", "9223372036854775807",
    "-9223372036854775808", "NULL")
  private val ints = Seq("0", "1", "-1", "100", "-100", "127", "-128", "NULL")
  private val words = Seq("''", "'a'", "'Hello'", "'日本語'", "'😀x'", "NULL")

  private val printed = Seq("%f", "%.0f", "%.1f", "%.2f", "%.3f", "%10.2f", "%-10.2f|", "%010.2f",
    "%+.2f", "% .2f", "%,.2f", "%(.2f", "%(,012.1f", "%.20f", "%s", "%12s", "%.3s", "%b").flatMap(
    p =>
      Seq(f(s"format_string('<$p>', a)", "DOUBLE" -> doubles),
        f(s"format_string('<$p>', a)", "FLOAT" -> doubles.filterNot(_.contains("308"))))) ++
    Seq("%d", "%5d", "%-5d|", "%05d", "%+d", "% d", "%,d", "%(d", "%(,08d", "%,020d", "%x", "%X",
      "%o",
      "%#x", "%#o", "%08x", "%#08X", "%-8x|", "%s", "%8s", "%-8s|", "%.2s", "%b").flatMap(p =>
      Seq("BIGINT" -> longs, "INT" -> ints, "SMALLINT" -> ints, "TINYINT" -> ints).map {
        case (t, v) =>
          f(s"format_string('$p', a)", t -> v)
      }) ++
    Seq("%s", "%5s", "%-5s|", "%.1s", "%5.2s", "%b", "%1$s %1$s", "%%%s%n").map(p =>
      f(s"format_string('$p', a)", "STRING" -> words)) ++ Seq(
      f("format_string('%s %d %s', a, b, c)", "STRING" -> words, "INT" -> ints,
        "BOOLEAN" -> Seq("true", "false", "NULL")),
      f("printf('%2$s-%1$s %s', a, b)", "STRING" -> words, "INT" -> ints),
      f("format_string('%b', a)", "BOOLEAN" -> Seq("true", "false", "NULL")),
      f("format_string('%d', a)", "DATE" -> Seq("'2020-01-01'", "NULL")),
      f("format_string('plain', a)", "INT" -> ints.take(2)),
      f("format_string(CAST(NULL AS STRING), a)", "INT" -> ints.take(2)))

  private val plains =
    Seq("X''", "X'00'", "CAST('Spark' AS BINARY)", "CAST('0123456789abcdef' AS BINARY)",
      "CAST(repeat('Spark SQL ', 9) AS BINARY)", "NULL")
  private val keys = Seq("'0000111122223333'", "'000011112222333344445555'",
    "'abcdefghijklmnop12345678ABCDEFGH'", "'short'", "''", "NULL")
  private val modes = Seq("'GCM'", "'cbc'", "'ECB'", "'CFB'", "NULL")
  private val paddings = Seq("'DEFAULT'", "'pkcs'", "'None'", "'x'", "NULL")
  private val ciphertexts = plains ++ Seq(
    "aes_encrypt('Spark', '0000111122223333', 'ECB')", "aes_encrypt('', '0000111122223333', 'ECB')",
    "aes_encrypt('Spark', '0000111122223333', 'CBC', 'DEFAULT', '0123456789abcdef')",
    "aes_encrypt('0123456789abcdef', '000011112222333344445555', 'CBC', 'PKCS', " +
      "'0123456789abcdef')",
    "aes_encrypt('Spark SQL', '0000111122223333', 'GCM', 'DEFAULT', '0123456789ab')",
    "aes_encrypt('', '0000111122223333', 'GCM', 'DEFAULT', '0123456789ab')",
    "aes_encrypt('Spark', 'abcdefghijklmnop12345678ABCDEFGH', 'GCM', 'DEFAULT', " +
      "'0123456789ab', 'AAD')",
    "X'4141414141414141414141414141414141414141414141414141414141414141'")

  private val aes = Seq("''", "'0123456789ab'", "'0123456789abcdef'", "'012'").flatMap { iv =>
    val modesOfIv = if (iv == "''") Seq("'ECB'") else modes.filter(_ != "NULL")
    modesOfIv.flatMap(m =>
      paddings.map(p =>
        f(s"aes_encrypt(a, b, $m, $p, $iv)", "BINARY" -> plains, "STRING" -> keys)))
  } ++ Seq(
    f("aes_encrypt(a, b, 'GCM', 'DEFAULT', '0123456789ab', c)", "BINARY" -> plains,
      "STRING" -> keys,
      "STRING" -> Seq("''", "'AAD'", "NULL")),
    f("aes_encrypt(a, b, 'CBC', 'DEFAULT', '0123456789abcdef', 'AAD')", "BINARY" -> plains,
      "STRING" -> keys),
    f("aes_encrypt(a, b, 'ECB', 'DEFAULT', '', 'AAD')", "BINARY" -> plains, "STRING" -> keys)) ++
    Seq("aes_decrypt", "try_aes_decrypt").flatMap { n =>
      Seq(
        f(s"$n(a, b)", "BINARY" -> ciphertexts, "STRING" -> keys),
        f(s"$n(a, b, 'CBC')", "BINARY" -> ciphertexts, "STRING" -> keys),
        f(s"$n(a, b, 'ECB')", "BINARY" -> ciphertexts, "STRING" -> keys),
        f(s"$n(a, b, c)", "BINARY" -> ciphertexts, "STRING" -> keys, "STRING" -> modes),
        f(s"$n(a, b, c, d)", "BINARY" -> ciphertexts, "STRING" -> keys, "STRING" -> modes,
          "STRING" -> paddings),
        f(s"$n(a, b, c, 'DEFAULT', d)", "BINARY" -> ciphertexts, "STRING" -> keys,
          "STRING" -> modes, "STRING" -> Seq("''", "'AAD'", "NULL")))
    }

  private def z(sql: String, columns: (String, Seq[String])*): FunctionCase =
    FunctionCase(sql, columns, zoned = true)

  private val stamps = Seq("'1970-01-01 00:00:00'", "'1969-12-31 23:59:59.999999'",
    "'2020-03-08 03:00:00'", "'2024-08-15 12:34:56.789'", "'0001-01-01 00:00:00'",
    "'9999-12-31 23:59:59.999999'", "'1883-11-18 12:00:00'", "'1800-01-01 00:00:00'",
    "'2020-10-25 02:30:00'", "'+12020-01-01 00:00:00.000001'", "NULL")
  private val said =
    Seq("''", "'plain'", "'it\\'s \"quoted\" \\\\'", "'tab\\t nl\\n \\u0001 \\u007f /'",
      "'日本 é 😀'", "NULL")

  private val generated = Seq(
    z("to_json(named_struct('t', a, 'n', CAST(a AS TIMESTAMP_NTZ), 'd', CAST(a AS DATE)))",
      "TIMESTAMP" -> stamps),
    f("to_json(named_struct('a', a, 'b', b))", "STRING" -> said, "BIGINT" -> longs),
    f("to_json(named_struct('a', a, 'b', b), map('ignoreNullFields', 'false'))", "STRING" -> said,
      "BIGINT" -> longs),
    f("to_json(named_struct('a', a, 'é \"x\"', array(a, NULL)))", "STRING" -> said),
    f("to_json(array(a, a))", "DOUBLE" -> doubles), f("to_json(array(a, a))", "FLOAT" -> doubles),
    f("to_json(array(a))", "BOOLEAN" -> Seq("true", "false", "NULL")),
    f("to_json(array(a))", "BINARY" -> plains),
    f("to_json(array(a))", "TINYINT" -> ints), f("to_json(array(a))", "SMALLINT" -> ints),
    f("to_json(array(a))", "DECIMAL(20,4)" -> Seq("0", "1.5", "-0.0005", "1234567.8855", "NULL")),
    f("to_json(array(a))", "DECIMAL(38,18)" -> Seq("0", "1e-18", "-1.5e-7", "1e-6", "NULL")),
    f("to_json(map(a, b))", "STRING" -> said.init, "INT" -> ints),
    f("to_json(map(a, b))", "BIGINT" -> longs.init, "STRING" -> said),
    f("to_json(map(a, array(named_struct('x', b))))", "BOOLEAN" -> Seq("true", "false"),
      "STRING" -> said),
    f("to_json(a)", "ARRAY<INT>" -> Seq("array()", "array(1, NULL, -7)", "NULL")),
    f("to_json(a)",
      "MAP<STRING, MAP<STRING, INT>>" -> Seq("map()", "map('a', map('b', 1))", "NULL")),
    f("to_json(a)",
      "STRUCT<x: STRUCT<y: INT, z: ARRAY<STRING>>, w: DOUBLE>" -> Seq("NULL",
        "named_struct('x', named_struct('y', 1, 'z', array('q', NULL)), 'w', 0.5)",
        "named_struct('x', NULL, 'w', NULL)",
        "named_struct('x', named_struct('y', NULL, 'z', NULL), 'w', NULL)")))

  private val records = documents ++ quoted(Seq(
      "{\"a\":1,\"b\":\"x\",\"c\":2.5}", "{\"b\":\"x\",\"a\":\"1\"}",
      "{\"a\":1.5,\"b\":2,\"c\":\"NaN\"}",
      "{\"a\":true,\"b\":true,\"c\":true}", "{\"a\":null,\"b\":null}",
      "{\"a\":NaN,\"b\":NaN,\"c\":NaN}",
      "{\"a\":Infinity,\"b\":-Infinity,\"c\":-INF}", "{\"a\":1,\"b\":+INF,\"c\":+Infinity}",
      "{\"a\":1,\"b\":+1}", "{\"a\":1,\"c\":-Inf}",
      "{\"a\":\"Infinity\",\"b\":\"-INF\",\"c\":\"+INF\"}",
      "{\"a\":\"\",\"b\":\"\",\"c\":\"\"}",
      "{\"a\":{\"x\":1},\"b\":{\"x\":[1.50,\"é😀\",NaN]},\"c\":[]}",
      "{\"a\":[1,2],\"b\":[1,{\"y\":null}],\"c\":{}}", "{\"a\":1,\"a\":\"x\",\"b\":2,\"b\":null}",
      "{\"a\":\"x\",\"a\":3}", "{\"a\":127,\"c\":1e39}", "{\"a\":128}", "{\"a\":200}",
      "{\"a\":255}", "{\"a\":256}",
      "{\"a\":-128}", "{\"a\":-129}", "{\"a\":32767}", "{\"a\":32768}", "{\"a\":2147483647}",
      "{\"a\":2147483648}", "{\"a\":-2147483648}", "{\"a\":9223372036854775807}",
      "{\"a\":9223372036854775808}", "{\"a\":-0,\"c\":-0}", "{\"c\":0.1}", "{\"c\":16777217}",
      "{\"c\":123456789012345678901234567890}", "{\"c\":1e400}", "{\"c\":-1e400}",
      "{\"c\":4.9e-324}",
      "{\"a\":1,\"b\":\"cut", "{\"a\":1,\"b\":\"cut\\", "{\"a\":1,\"b\":{\"x\":1",
      "{\"a\":1,\"b\":{\"x\":",
      "{\"a\":1,\"b\":{\"x\"", "{\"a\":1,\"b\":{\"x", "{\"a\":1,\"b\":{", "{\"a\":1,\"b\":[1",
      "{\"a\":1,\"b\":[",
      "{\"a\":1,\"b\":{\"x\":\"y", "{\"a\":1,\"b\":", "{\"a\":1,\"b\"", "{\"a\":1,\"b", "{\"a\":1,",
      "{\"a\":1",
      "{\"a\":1,\"b\":{\"x\":tru},\"c\":2}", "{\"a\":1,\"b\":{\"x\":01},\"c\":2}",
      "{\"a\":1,\"b\":{\"x\" 1},\"c\":2}", "{\"c\":1,\"b\":{\"x\":'un},\"a\":2}",
      "{\"a\":1,\"b\":\"bad \\x escape\",\"c\":2}", "{\"a\":1,\"b\":\"two\nlines\",\"c\":2}",
      "{\"a\":1,\"d\":\"bad \\x escape\",\"c\":2}",
      "{\"a\":1,\"b\":{\"y\":\"bad \\x escape\"},\"c\":2}",
      "{\"a\":1,\"d\":{\"x\":tru},\"c\":2}", "{\"a\":{\"x\":tru},\"c\":2}", "{\"a\":[tru],\"c\":2}",
      "{\"d\":{\"a\":7},\"a\":1}", "{\"a\":1,\"b\":\"\\ud83d\",\"c\":1}", "{\"b\":[\"\\ud83d\"]}",
      "{\"a\":1,\"b\":\"\\u12\"}", "{\"A\":1,\"B\":\"x\"}", "{\"a\":1}}", "{\"a\":1]",
      "{\"b\":{\"x\":\"\\u1\"},\"a\":1}", "{\"b\":[\"\\u1\"},\"a\":1}",
      "{\"b\":{\"x\":1,\"a\":\"\\q,\"a\":5},\"c\":1}",
      "{\"b\":{\"x\":[x,1],\"a\":5},\"c\":1}", "{\"b\":{x,\"a\":5},\"c\":1}",
      "{\"b\":{\"x\":{\"y\":1]},\"a\":5},\"c\":1}",
      "{\"b\":[1 2,3],\"a\":5}", "{\"b\":[1,],\"a\":5}", "{\"b\":{\"x\":1,},\"a\":5}",
      "{\"b\":[1}}", "{\"b\":{\"x\":1]}",
      "  {\"a\" : 1 , \"b\" : \"s\" }  ", "[{\"a\":1}]", "{\"c\":\"1.5\"}", "{\"c\":\" NaN\"}",
      "{\"c\":\"nan\"}")).distinct

  private val read = Seq("a INT, b STRING, c DOUBLE", "a TINYINT, c FLOAT", "a SMALLINT, b BOOLEAN",
    "a BIGINT, b STRING", "a BOOLEAN", "a STRING, b STRING, c STRING", "c DOUBLE, a FLOAT",
    "`a b` INT, `日本` STRING",
    "zz INT").map(of => f(s"from_json(a, '$of')", "STRING" -> records))

  val families: Seq[(String, Seq[FunctionCase])] = Seq(
    "json_read" -> read,
    "json_made" -> generated,
    "ciphers" -> aes,
    "json" -> json,
    "urls" -> urls,
    "formats" -> (masks ++ toNumbers ++ printed))

  val refused: Seq[FunctionCase] = {
    val (text, int) = ("STRING" -> Seq("'a'"), "INT" -> Seq("1"))
    Seq(
      f("format_string(a, b)", text, int),
      f("format_string('%c', a)", int),
      f("format_string('%d', a)", text),
      f("format_string('%s %s', a)", text),
      f("format_string('%s', a)", "DECIMAL(10,2)" -> Seq("1.5")),
      f("format_string('%-d', a)", int),
      f("format_string('%<s', a)", text),
      f("format_string('%S', a)", text),
      f("format_string('%', a)", text),
      f("format_string('%99999d', a)", int),
      f("parse_url(a, 'QUERY', b)", text, text),
      f("parse_url(a, 'QUERY', 'a.b')", text),
      f("mask(a, '😀')", text),
      f("aes_encrypt(a, '0000111122223333')", text),
      f("to_json(named_struct('a', a), map('pretty', 'true'))", text),
      f("from_json(a, 'x INT', map('mode', 'FAILFAST'))", text),
      f("from_json(a, 'x DATE')", text),
      f("from_json(a, 'x ARRAY<INT>')", text),
      f("from_json(a, 'x INT, _corrupt_record STRING')", text),
      f("from_json(a, 'MAP<STRING, INT>')", text),
      f("to_json(map(named_struct('a', a), 1))", text),
      f("to_json(map(a, 1))", "DOUBLE" -> Seq("1")),
      f("to_json(named_struct('a', a, 'a', a))", text),
      f("aes_encrypt(a, '0000111122223333', 'CBC', 'DEFAULT', b)", text, text))
  }
}
