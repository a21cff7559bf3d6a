"""What keys cost, under a real Hadoop KMS on loopback: a query over a table of 1,000 files, rewrapping the keys of many
tables, and the admission of an engine.

`key_ms` is the time between a request's arrival at the KMS (at a relay before it) and the end of its answer, over all
requests of the query: what the client engine then derives is not in it, some microseconds for each column. `attest_ms` is
what the executor says of its engine's handshake: challenge, evidence, verdict, each way. Its evidence is simulated;
`verify_ms` is what judging a TEE's adds. Rewrapping is one run of `coffer keys rewrap`, after the
master got a new version; opening the keyring, a good part of a second, is in it.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from coffer.workload.owner import Owner
from coffer.workload.runner import Driver
from coffer.workload.servers import HadoopKms, Relay
from coffer_bench import report, verifiers

FILES = 1000
ROWS = 20 * FILES
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


def measure(folder: Path, tables: int) -> dict[str, Any]:
    """The figures; an answer that is wrong, or a table of other than 1,000 files, is an error."""
    server = HadoopKms(folder / "kms").start()
    relay = Relay(server.address)
    try:
        server.create("bench")
        owner = _owner(folder / "trusted", server.uri("bench").replace(server.address, relay.address))
        query = _query(folder, owner, relay)
        rewrap = _rewrap(folder, owner, tables)
    finally:
        relay.stop()
        server.stop()
    verify = {"verify_ms": verifiers.measure(folder / "collateral")}
    return {"benchmark": "keys", "machine": report.machine(), **query, **verify, **rewrap}


def _owner(folder: Path, uri: str) -> Owner:
    owner = Owner.create(folder)
    policy = owner.home / "policy.toml"
    text = policy.read_text().replace('\nmaster = "main"\n', '\nmaster = "kms"\n')
    policy.write_text(f"{text}\n[masters]\nkms = '{uri}'\n")
    return owner


def _query(folder: Path, owner: Owner, relay: Relay) -> dict[str, Any]:
    sealed, log, logging = folder / "t", folder / "driver.log", folder / "log4j2.properties"
    logging.write_text(LOG)

    def driver(tables: dict[str, Path]) -> Driver:
        env = {"JAVA_TOOL_OPTIONS": f"-Dlog4j2.configurationFile=file:{logging}"}
        return Driver(tables, sealed=True, log=log, home=owner.home, passphrase_file=owner.passphrase_file, env=env)

    source = folder / "one.parquet"
    pq.write_table(pa.table({"v": list(range(ROWS))}), source)
    owner.coffer("encrypt", source, folder / "one")
    with driver({"one": folder / "one"}) as writing:
        writing.run(WRITE, files=FILES, path=str(sealed))
    files = sum(1 for file in sealed.iterdir() if file.suffix == ".parquet")
    if files != FILES:
        raise SystemExit(f"error: the table has {files} files instead of {FILES}")
    relay.seen.clear()
    relay.seconds.clear()
    # Another client engine: the one that wrote has the key.
    with driver({"t": sealed}) as reading:
        answer = reading.query(SQL)
    if answer.rows != [[str(ROWS), str(ROWS * (ROWS - 1) // 2)]]:
        raise SystemExit(f"error: the query's answer is wrong: {answer.rows}")
    admitted = re.findall(r"is admitted, in (\d+) ms", log.read_text(errors="replace"))
    if not admitted:
        raise SystemExit("error: the executor's log does not say how long its engine's admission took")
    return {
        "files": files,
        "kms_calls": len(relay.seen),
        "key_ms": round(1000 * sum(relay.seconds), 1),
        "query_s": round(answer.seconds, 2),
        "attest_ms": int(admitted[-1]),
    }


def _rewrap(folder: Path, owner: Owner, tables: int) -> dict[str, Any]:
    """The tables are one and the same but for their keys, and small."""
    if "rewrap" not in owner.coffer("keys", "--help").stdout:
        return {"rewrap_tables": 0, "rewrap_tables_per_s": None}
    source = folder / "small.parquet"
    pq.write_table(pa.table({"v": [1]}), source)
    (folder / "many").mkdir()
    for number in range(tables):
        owner.coffer("encrypt", source, folder / "many" / f"t{number}")
    owner.coffer("keys", "rotate", "kms")
    start = time.monotonic()
    owner.coffer("keys", "rewrap", "--all")
    return {"rewrap_tables": tables + 1, "rewrap_tables_per_s": round((tables + 1) / (time.monotonic() - start), 1)}
