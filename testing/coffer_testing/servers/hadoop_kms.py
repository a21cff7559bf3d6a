"""The Hadoop KMS 3.4, from its Maven artifacts: `KMSWebServer` with a JCEKS key store in a
folder."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import urllib.parse
from pathlib import Path

from coffer_testing.servers.jars import fetched
from coffer_testing.servers.process import ServerProcess

VERSION = "3.4.3"
_POM = Path(__file__).with_name("hadoop-kms.pom.xml")
_MAIN = "org.apache.hadoop.crypto.key.kms.server.KMSWebServer"
_STORE_PASSWORD = "coffer-tests"
_LOG = """\
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c: %m%n
"""
# Nobody gets raw key material, whoever asks.
_NEVER = ("GET", "GET_KEYS", "SET_KEY_MATERIAL")
_OPERATIONS = ("CREATE", "DELETE", "ROLLOVER", "GET_METADATA", "GENERATE_EEK", "DECRYPT_EEK")


def jars() -> Path:
    """The folder of the server's jars, fetched by Maven the first time."""
    return fetched(f"hadoop-kms-{VERSION}", _POM)


class HadoopKms:
    """A server of its own folder. `users`: who may do what the operations say; nobody else may do
    anything. `cache`: it keeps keys that it has read from its key store, as it does by default:
    reading one takes it a tenth of a second. Without, what is deleted is gone at once."""

    def __init__(
        self, folder: Path, *, users: str = "coffer", tls: bool = False, cache: bool = False
    ) -> None:
        self.folder = folder
        self.tls = tls
        self.certificate = folder / "ca.pem"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "store-password").write_text(_STORE_PASSWORD)
        (folder / "log4j.properties").write_text(_LOG)
        self.allow(dict.fromkeys(_OPERATIONS, users))
        self._settings = {
            "hadoop.kms.http.host": "127.0.0.1",
            "hadoop.kms.http.port": "0",
            "hadoop.kms.key.provider.uri": f"jceks://file@{folder}/keys.jceks",
            "hadoop.security.keystore.java-keystore-provider.password-file": "store-password",
            "hadoop.kms.authentication.type": "simple",
            "hadoop.kms.cache.enable": "true" if cache else "false",
        }
        if tls:
            self._settings["hadoop.kms.ssl.enabled"] = "true"
            self._certify()
        self._write("kms-site.xml", self._settings)
        self._write("core-site.xml", {})
        java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
        command = [
            str(java),
            "-Xmx256m",
            # Without it the server takes the first request and hangs (JDK 17).
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            f"-Dkms.config.dir={folder}",
            f"-Dlog4j.configuration=file:{folder}/log4j.properties",
            "-cp",
            f"{folder}:{jars()}/*",
            _MAIN,
        ]
        says = r"Jetty bound to port (\d+)"
        self.process = ServerProcess(command, folder / "server.log", says, self._answers, {})

    @property
    def address(self) -> str:
        """Its base URL."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.process.port}/kms"

    def uri(self, key: str, user: str = "coffer", **options: str | int) -> str:
        """As a policy names a key of it."""
        if self.tls:
            options = {"ca": str(self.certificate), **options}
        query = urllib.parse.urlencode(
            {"key": key, "user": user, **options}, quote_via=urllib.parse.quote
        )
        return f"hadoop-kms:{self.address}?{query}"

    def start(self) -> HadoopKms:
        """Started again it has the port that it had: policies name it."""
        self.process.start()
        self._settings["hadoop.kms.http.port"] = str(self.process.port)
        self._write("kms-site.xml", self._settings)
        return self

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def allow(self, operations: dict[str, str]) -> None:
        """Writes the access rules, which the server reads anew within some seconds, and at its
        start. No user: `" "`."""
        rules = {f"hadoop.kms.acl.{operation}": " " for operation in _NEVER}
        rules |= {f"hadoop.kms.acl.{operation}": users for operation, users in operations.items()}
        for operation in ("MANAGEMENT", "GENERATE_EEK", "DECRYPT_EEK", "READ"):
            rules[f"default.key.acl.{operation}"] = "*"
        self._write("kms-acls.xml", rules)

    def ask(
        self, method: str, path: str, body: object = None, user: str = "coffer"
    ) -> tuple[int, object]:
        """One request, as its clients make them: `path` is below `/kms/v1/`."""
        mark = "&" if "?" in path else "?"
        text = json.dumps(body) if body is not None else None
        headers = {"content-type": "application/json"}
        connection = self._connection()
        try:
            connection.request(method, f"/kms/v1/{path}{mark}user.name={user}", text, headers)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(said) if said else None

    def create(self, key: str, bits: int = 256) -> None:
        """A new key."""
        body = {
            "name": key,
            "cipher": "AES/CTR/NoPadding",
            "length": bits,
            "description": "of a test",
        }
        status, said = self.ask("POST", "keys", body)
        if status not in (200, 201):
            raise RuntimeError(f"the key {key} was not made: {status} {said}")

    def delete(self, key: str) -> None:
        """The key, with all its versions."""
        status, said = self.ask("DELETE", f"key/{key}")
        if status != 200:
            raise RuntimeError(f"the key {key} was not deleted: {status} {said}")

    def _connection(self) -> http.client.HTTPConnection:
        if self.tls:
            context = ssl.create_default_context(cafile=str(self.certificate))
            return http.client.HTTPSConnection(
                "127.0.0.1", self.process.port, timeout=10, context=context
            )
        return http.client.HTTPConnection("127.0.0.1", self.process.port, timeout=10)

    def _answers(self) -> None:
        try:
            self.ask("GET", "keys/names")
        except (http.client.HTTPException, json.JSONDecodeError) as error:
            raise OSError(str(error)) from error

    def _certify(self) -> None:
        """A key pair and a certificate for 127.0.0.1 that is its own root."""
        store = self.folder / "tls.p12"
        keytool = (
            Path(os.environ["JAVA_HOME"]) / "bin/keytool"
            if "JAVA_HOME" in os.environ
            else "keytool"
        )
        common = [
            str(keytool),
            "-keystore",
            str(store),
            "-storepass",
            _STORE_PASSWORD,
            "-alias",
            "kms",
        ]
        make = [
            "-genkeypair",
            "-keyalg",
            "EC",
            "-groupname",
            "secp256r1",
            "-dname",
            "CN=127.0.0.1",
            "-validity",
            "30",
        ]
        make += ["-storetype", "PKCS12", "-ext", "SAN=ip:127.0.0.1"]
        subprocess.run([*common, *make], check=True, capture_output=True, timeout=600)
        export = ["-exportcert", "-rfc", "-file", str(self.certificate)]
        subprocess.run([*common, *export], check=True, capture_output=True, timeout=600)
        self._write(
            "ssl-server.xml",
            {
                "ssl.server.keystore.location": str(store),
                "ssl.server.keystore.type": "PKCS12",
                "ssl.server.keystore.password": _STORE_PASSWORD,
                "ssl.server.keystore.keypassword": _STORE_PASSWORD,
            },
        )

    def _write(self, name: str, settings: dict[str, str]) -> None:
        lines = [
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in settings.items()
        ]
        text = "<configuration>\n" + "\n".join(lines) + "\n</configuration>\n"
        # Replaced at once: the server may be reading it.
        fresh = self.folder / f"{name}.new"
        fresh.write_text(text)
        fresh.replace(self.folder / name)
