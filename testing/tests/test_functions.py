"""Built-in functions over sealed rows: a query for each family, with plaintext Spark's answer.

The engine's own tests replay what Spark gives over edge values (`FunctionGoldenSuite`); here they
run in whole queries."""

from __future__ import annotations

import pytest

from coffer_testing.answers import difference
from coffer_testing.runner import Driver
from conftest import Expected, ansi_conf

FAMILIES = {
    "digests": "md5(s), sha1(bin), sha2(s, 224), sha2(bin, 512), crc32(s)",
    "hashes": "hash(i8, i16, i32, i64, f32, f64, b), hash(d9, d18, d38, s, bin, dt, ts), "
    "xxhash64(i8, i16, i32, i64, f32, f64, b), xxhash64(d9, d18, d38, s, bin, dt, ts), "
    "hash(array(k, NULL), struct(s, n)), xxhash64(array(s), struct(k))",
    "encodings": "base64(bin), hex(s), hex(i64), bin(i64), unbase64(base64(bin)), unhex(hex(s)), "
    "conv(i32, 10, 16), encode(s, 'UTF-16LE'), decode(encode(s, 'UTF-32'), 'UTF-32'), "
    "url_encode(s), url_decode(url_encode(s))",
    "mathematics": "cbrt(f64), atan(f64), asin(q / 2000), acos(q / 2000), atan2(f64, q), "
    "sinh(q / 100), cosh(q / 100), tanh(q), asinh(f64), atanh(q / 2000), acosh(f64), "
    "hypot(f64, q), log2(f64), log1p(f64), expm1(q / 10), rint(q), degrees(q), radians(q), "
    "factorial(k), width_bucket(q, -1000, 1000, 10), bit_count(i64), nanvl(f64, q)",
    "strings": "soundex(s), levenshtein(s, 'abc'), find_in_set(s, 'a,b,c'), quote(s), "
    "overlay(s PLACING '_' FROM 2), elt(coalesce(k % 2, 0) + 1, s, 'x'), split_part(s, ' ', 1), "
    "format_number(q, 2), format_number(d18, 1), format_number(i64, 0)",
    "patterns": "s RLIKE '^[a-z]+', regexp_extract(s, '([a-z]+)', 1), "
    "regexp_extract_all(s, '[a-z]', 0), regexp_instr(s, '[0-9]'), regexp_count(s, '[a-z]'), "
    "regexp_replace(s, '([aeiou])', '<$1>'), split(s, '[ ,]'), regexp_substr(s, '[a-z]+')",
    "json": "get_json_object(to_json(struct(id, s, array(k, NULL) AS a)), '$.a[0]'), "
    "to_json(struct(id, s, q, f64, d9, bin)), to_json(map('k', k)), json_array_length(s), "
    "json_object_keys(to_json(struct(id, s))), "
    "from_json(to_json(struct(k, s, q)), 'k INT, s STRING, q DOUBLE, x BOOLEAN'), "
    "to_json(from_json(s, 'a INT'))",
    "forms": "mask(s), mask(s, 'A', NULL, '9', '-'), format_string('%5d|%s|%08.2f', k, s, q), "
    "printf('%,d', n), try_to_number(CAST(k AS STRING), 'S999'), "
    "try_parse_url(concat('http://u@host:80/', k, '?a=', n, '#f'), 'QUERY', 'a')",
    "ciphers": "hex(aes_encrypt(s, '0000111122223333', 'ECB')), "
    "aes_decrypt(aes_encrypt(bin, 'abcdefghijklmnop12345678ABCDEFGH', 'GCM', 'DEFAULT', "
    "'0123456789ab', 'x'), 'abcdefghijklmnop12345678ABCDEFGH', 'GCM', 'DEFAULT', 'x'), "
    "try_aes_decrypt(bin, '0000111122223333')",
    # As texts where the year may be 10000, which Python has not.
    "times": "date_format(ts, 'EEE, d MMM yyyy hh:mm a'), from_unixtime(n), monthname(dt), "
    "date_format(dt, 'y yyy yyyyy yyyyyy M/d'), "
    "dayname(dt), CAST(next_day(dt, 'MO') AS STRING), "
    "CAST(from_utc_timestamp(ts, 'Asia/Tokyo') AS STRING), "
    "timestampadd(MONTH, k, timestamp'2020-01-31 10:00:00'), "
    "timestampdiff(DAY, ts, timestamp'2020-01-01'), "
    "unix_timestamp('2020-03-08 02:30:00'), to_date(concat('2020-01-0', k), 'yyyy-MM-dd'), "
    "make_timestamp(2020, k + 1, 1, 2, 3, 4.5), "
    "CAST(convert_timezone('UTC', 'Asia/Tokyo', ntz) AS STRING), "
    "timestamp'2020-01-31 00:00:00' + make_interval(0, 1)",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str, expected: Expected, sealed: Driver) -> None:
    sql = f"SELECT id, {FAMILIES[family]} FROM edge"
    if family == "times":
        sql += " WHERE k > 0"
    want = expected.answer(sql, "off")
    got = sealed.query(sql, ansi_conf("off"))
    assert difference(want, got, ordered=False) is None


def test_a_generator_of_json(expected: Expected, sealed: Driver) -> None:
    sql = (
        "SELECT id, x, y FROM edge LATERAL VIEW OUTER "
        "json_tuple(to_json(struct(s, k, q)), 's', 'q') AS x, y"
    )
    assert difference(expected.answer(sql), sealed.query(sql), ordered=False) is None


def test_what_follows_from_a_rows_place(sealed: Driver) -> None:
    numbers = "SELECT id, rand(7) AS r, randn(7) AS n, uniform(1, 9, 7) AS u FROM edge"
    first, second = sealed.query(numbers), sealed.query(numbers)
    assert difference(first, second, ordered=False) is None
    counts = sealed.query(
        "SELECT count(*), count(DISTINCT u), count(DISTINCT i), min(length(t)), "
        "bool_and(r >= 0 AND r < 1), bool_and(size(a) = 3 AND array_contains(a, id)) FROM "
        "(SELECT id, uuid() AS u, monotonically_increasing_id() AS i, randstr(5) AS t, "
        "rand() AS r, shuffle(array(id, 0, -1)) AS a FROM edge)"
    )
    [[rows, uuids, ids, shortest, inside, kept]] = counts.rows
    assert rows == uuids == ids
    assert (shortest, inside, kept) == ("5", "True", "True")
    some = sealed.query("SELECT count(*) FROM edge WHERE rand(3) < 0.5 AND id >= 0")
    [[half]] = some.rows
    assert 0 < int(half) < int(rows)


def test_aggregates(expected: Expected, sealed: Driver) -> None:
    sql = (
        "SELECT k, approx_count_distinct(n), approx_count_distinct(s, 0.02), "
        "percentile_approx(n, array(0.1, 0.5)), percentile_approx(q, 0.9), "
        "string_agg(s, ', ') WITHIN GROUP (ORDER BY n DESC, id), listagg(DISTINCT s) "
        "WITHIN GROUP (ORDER BY s), hex(count_min_sketch(s, 0.5d, 0.5d, 1)), "
        "bitmap_count(bitmap_construct_agg(bitmap_bit_position(id))), "
        "hex(substring(bitmap_or_agg(encode(s, 'UTF-8')), 1, 9)), "
        "hex(substring(bitmap_and_agg(encode(s, 'UTF-8')), 1, 9)) FROM edge GROUP BY k"
    )
    got = sealed.query(sql, ansi_conf("off"))
    assert difference(expected.answer(sql, "off"), got, ordered=False) is None


def test_grouped_and_filtered(expected: Expected, sealed: Driver) -> None:
    sql = (
        "SELECT date_format(ts, 'yyyy-MM') month, count(*), min(md5(s)) FROM edge "
        "WHERE NOT s RLIKE 'x{3}$' AND hash(id) % 3 <> 0 GROUP BY 1"
    )
    got = sealed.query(sql, ansi_conf("on"))
    assert difference(expected.answer(sql, "on"), got, ordered=False) is None
