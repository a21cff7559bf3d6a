"""An S3 on loopback: moto's server, which keeps objects in memory; and S3A, by which Spark reaches
it. It does not check signatures."""

from __future__ import annotations

import http.client
import sys
import urllib.parse
import xml.etree.ElementTree as Xml
from pathlib import Path

from coffer._find import find_jar
from coffer_testing.servers.jars import fetched
from coffer_testing.servers.process import ServerProcess

VERSION = "3.4.2"  # Spark's Hadoop
REGION = "us-east-1"
BUCKET = "tables"
# Whoever knows these may do nothing anywhere: moto takes any.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIDTEST",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_REGION": REGION,
}
_POM = Path(__file__).with_name("hadoop-aws.pom.xml")


def jars() -> list[Path]:
    """S3A and what it needs that Spark does not have."""
    return sorted(fetched(f"hadoop-aws-{VERSION}", _POM).glob("*.jar"))


def conf(address: str) -> dict[str, str]:
    """Spark's settings to reach an S3 there."""
    return {
        "spark.jars": ",".join(map(str, [find_jar(), *jars()])),
        "spark.hadoop.fs.s3a.endpoint": address,
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


def environment(address: str) -> dict[str, str]:
    """What the command line needs to reach an S3 there."""
    return {**CREDENTIALS, "AWS_ENDPOINT_URL": address}


class S3:
    """A server with one bucket; its objects are gone when it stops."""

    scheme = "s3a"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        says = r"Running on http://127\.0\.0\.1:(\d+)"
        self.process = ServerProcess(command, folder / "server.log", says, self._answers, {})

    @property
    def address(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self.process.port}"

    @property
    def root(self) -> str:
        """The URL below which tests put tables."""
        return f"s3a://{BUCKET}"

    @property
    def log(self) -> Path:
        """What it was asked for."""
        return self.process.log

    def start(self) -> S3:
        self.process.start()
        self._ask("PUT", f"/{BUCKET}")
        return self

    def stop(self) -> None:
        self.process.stop()

    def conf(self) -> dict[str, str]:
        """Spark's settings to reach it."""
        return conf(self.address)

    def environment(self) -> dict[str, str]:
        """What the command line needs to reach it."""
        return environment(self.address)

    def files(self, folder: str) -> dict[str, bytes]:
        """What lies below a folder, by its name there."""
        prefix = folder.removeprefix(self.root).strip("/")
        prefix = f"{prefix}/" if prefix else ""
        query = urllib.parse.urlencode({"list-type": "2", "prefix": prefix})
        listing = Xml.fromstring(self._ask("GET", f"/{BUCKET}?{query}"))
        space = "{http://s3.amazonaws.com/doc/2006-03-01/}"
        keys = [found.text or "" for found in listing.iter(f"{space}Key")]
        return {
            key.removeprefix(prefix): self._ask("GET", f"/{BUCKET}/{urllib.parse.quote(key)}")
            for key in keys
            if not key.endswith("/")
        }

    def dump(self, folder: Path) -> list[Path]:
        """Writes all objects below a folder, for who searches what a host can read; with what the
        server says of its requests."""
        for name, content in {**self.files(self.root), "requests": self.log.read_bytes()}.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return [folder]

    def put(self, path: str, content: bytes) -> None:
        """Makes or replaces a file."""
        key = path.removeprefix(self.root).strip("/")
        self._ask("PUT", f"/{BUCKET}/{urllib.parse.quote(key)}", content)

    def delete(self, path: str) -> None:
        key = path.removeprefix(self.root).strip("/")
        self._ask("DELETE", f"/{BUCKET}/{urllib.parse.quote(key)}")

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.process.port, timeout=30)
        # moto finds the service in the credential's scope.
        scope = (
            f"AWS4-HMAC-SHA256 Credential=AKIDTEST/20260101/{REGION}/s3/aws4_request, "
            "SignedHeaders=host, Signature=0"
        )
        try:
            connection.request(method, path, body, {"authorization": scope})
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        if answer.status not in (200, 204):
            raise RuntimeError(f"{method} {path}: {answer.status} {said.decode(errors='replace')}")
        return said

    def _answers(self) -> None:
        try:
            self._ask("GET", "/")
        except (RuntimeError, http.client.HTTPException) as error:
            raise OSError(str(error)) from error
