"""What keys cost, under a real Hadoop KMS on loopback: a query over a table of 1,000 files,
rewrapping the keys of many tables, and the admission of an engine.

The KMS is as it comes, with its cache of keys, and has opened a key before: without that it reads
its key store for each request, which takes it a tenth of a second. `key_ms` is the time between a
request's arrival at the KMS (at a relay before it) and the end of its answer, over all requests of
the query: what the client engine then derives is not in it, some microseconds for each column.
`attest_ms` is what the executor says of its engine's handshake: challenge, evidence, verdict, each
way. Its evidence is simulated; `verify_ms` is what judging a TEE's adds. Rewrapping is one run of
`coffer keys rewrap`, after the master got a new version; opening the keyring, a good part of a
second, is in it. Each key is two calls: one that wraps its data key anew, one that sees the result
open. `kms_calls_per_s` is what plain requests of as many threads come to, in a process of their own
just after; `rewrap_of_kms` is how near to it rewrapping comes, opening the keyring left out.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.parse
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coffer_bench import report, verifiers
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver
from coffer_testing.servers import HadoopKms, Relay

FILES = 1000
ROWS_PER_FILE = 20
THREADS = 16
PLAIN_SECONDS = 5.0
WRITE = "spark.table('one').repartition(files).write.format('coffer').save(path); result = 0"
LOG = """\
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
logger.coffer.name = org.apache.spark.sql.coffer
logger.coffer.level = info
"""
SQL = "SELECT count(*) AS n, sum(v) AS s FROM t"


def measure(folder: Path, tables: int, files: int = FILES) -> dict[str, Any]:
    """The figures; an answer that is wrong, or a table of other than so many files, is an error."""
    server = HadoopKms(folder / "kms", cache=True).start()
    relay = Relay(server.address)
    try:
        server.create("bench")
        owner = _owner(
            folder / "trusted", server.uri("bench").replace(server.address, relay.address)
        )
        query = _query(folder, owner, relay, files)
        rewrap = _rewrap(folder, owner, tables, relay, server)
    finally:
        relay.stop()
        server.stop()
    verify = {"verify_ms": verifiers.measure(folder / "collateral")}
    return {"benchmark": "keys", "machine": report.machine(), **query, **verify, **rewrap}


def _owner(folder: Path, uri: str) -> Owner:
    owner = Owner.create(folder)
    text = owner.policy.replace('\nmaster = "main"\n', '\nmaster = "kms"\n')
    owner.sign(f"{text}\n[masters]\nkms = '{uri}'\n")
    return owner


def _query(folder: Path, owner: Owner, relay: Relay, count: int) -> dict[str, Any]:
    rows = ROWS_PER_FILE * count
    sealed, log, logging = folder / "t", folder / "driver.log", folder / "log4j2.properties"
    logging.write_text(LOG)

    def driver(tables: dict[str, Path]) -> Driver:
        env = {"JAVA_TOOL_OPTIONS": f"-Dlog4j2.configurationFile=file:{logging}"}
        return Driver(
            tables,
            sealed=True,
            log=log,
            config_dir=owner.config_dir,
            passphrase_file=owner.passphrase_file,
            env=env,
        )

    source = folder / "one.parquet"
    pq.write_table(pa.table({"v": list(range(rows))}), source)
    owner.coffer("encrypt", source, folder / "one")
    with driver({"one": folder / "one"}) as writing:
        writing.run(WRITE, files=count, path=str(sealed))
    files = sum(1 for file in sealed.iterdir() if file.suffix == ".parquet")
    if files != count:
        raise SystemExit(f"error: the table has {files} files instead of {count}")
    relay.seen.clear()
    relay.seconds.clear()
    # Another client engine: the one that wrote has the key.
    with driver({"t": sealed}) as reading:
        answer = reading.query(SQL)
    if answer.rows != [[str(rows), str(rows * (rows - 1) // 2)]]:
        raise SystemExit(f"error: the query's answer is wrong: {answer.rows}")
    admitted = re.findall(r"is admitted, in (\d+) ms", log.read_text(errors="replace"))
    if not admitted:
        raise SystemExit(
            "error: the executor's log does not say how long its engine's admission took"
        )
    return {
        "files": files,
        "kms_calls": len(relay.seen),
        "key_ms": round(1000 * sum(relay.seconds), 1),
        "query_s": round(answer.seconds, 2),
        "attest_ms": int(admitted[-1]),
    }


def _rewrap(
    folder: Path, owner: Owner, tables: int, relay: Relay, server: HadoopKms
) -> dict[str, Any]:
    """The tables are one and the same but for their keys, and small."""
    # The relay is for counting, and slower than what it counts.
    owner.sign(owner.policy.replace(relay.address, server.address))
    source = folder / "small.parquet"
    pq.write_table(pa.table({"v": [1]}), source)
    (folder / "many").mkdir()
    # Each opens the keyring, which takes a core a good part of a second.
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(
            threads.map(
                lambda number: owner.coffer("encrypt", source, folder / "many" / f"t{number}"),
                range(tables),
            )
        )
    owner.coffer("keys", "rotate", "kms")
    start = time.monotonic()
    done = json.loads(
        owner.coffer("keys", "rewrap", "--all", "--threads", str(THREADS), "--json").stdout
    )
    seconds = time.monotonic() - start
    if done["moved"] != tables + 2 or done["failed"]:
        raise SystemExit(f"error: {done['moved']} keys were moved and {done['failed']} failed")
    with ProcessPoolExecutor(1) as process:
        plain = process.submit(plain_calls, server.address).result(600)
    return {
        "rewrap_tables": done["moved"],
        "rewrap_tables_per_s": round(done["moved"] / seconds, 1),
        "rewrap_threads": THREADS,
        "kms_calls_per_s": round(plain, 1),
        "rewrap_of_kms": round(2 * done["per_second"] / plain, 2),
    }


def plain_calls(address: str) -> float:
    """Decryptions that the KMS does in a second for `THREADS` threads of nothing but requests, each
    over one connection."""
    url = urllib.parse.urlsplit(address)
    headers = {"content-type": "application/json"}

    def ask(
        connection: http.client.HTTPConnection, method: str, path: str, body: str | None = None
    ) -> Any:
        connection.request(method, f"{url.path}/v1/{path}&user.name=coffer", body, headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise SystemExit(f"error: the KMS answers {answer.status}")
        return json.loads(said)

    def connect() -> http.client.HTTPConnection:
        return http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)

    edek = ask(connect(), "GET", "key/bench/_eek?eek_op=generate&num_keys=1")[0]
    version = urllib.parse.quote(edek["versionName"], safe="")
    key = {"name": "bench", "iv": edek["iv"], "material": edek["encryptedKeyVersion"]["material"]}
    end = time.monotonic() + PLAIN_SECONDS

    def calls() -> int:
        connection, count = connect(), 0
        while time.monotonic() < end:
            ask(connection, "POST", f"keyversion/{version}/_eek?eek_op=decrypt", json.dumps(key))
            count += 1
        return count

    with ThreadPoolExecutor(THREADS) as pool:
        counts = [pool.submit(calls) for _ in range(THREADS)]
        return sum(count.result(600) for count in counts) / PLAIN_SECONDS
