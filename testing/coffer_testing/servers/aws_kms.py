"""An AWS KMS on loopback: moto's server, which keeps keys in memory. It does not check
signatures."""

from __future__ import annotations

import http.client
import json
import sys
import urllib.parse
from pathlib import Path

from coffer_testing.servers.process import ServerProcess

REGION = "eu-west-1"
# Whoever knows these may do nothing anywhere: moto takes any.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIDTEST",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_REGION": REGION,
}


class AwsKms:
    """A server; its keys are gone when it stops."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        says = r"Running on http://127\.0\.0\.1:(\d+)"
        self.process = ServerProcess(command, folder / "server.log", says, self._answers, {})

    @property
    def address(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self.process.port}"

    def uri(self, key: str, endpoint: str | None = None, **options: str | int) -> str:
        """As a policy names a key of it."""
        query = urllib.parse.urlencode(
            {"region": REGION, "endpoint": endpoint or self.address, **options}, safe=":/"
        )
        return f"aws-kms:{key}?{query}"

    def start(self) -> AwsKms:
        self.process.start()
        return self

    def stop(self) -> None:
        self.process.stop()

    def ask(self, operation: str, body: object) -> dict:
        """One operation, unsigned."""
        connection = http.client.HTTPConnection("127.0.0.1", self.process.port, timeout=10)
        # moto finds the service and the region in the credential's scope.
        scope = f"AWS4-HMAC-SHA256 Credential=AKIDTEST/20260101/{REGION}/kms/aws4_request, SignedHeaders=host, Signature=0"  # noqa: E501
        headers = {
            "content-type": "application/x-amz-json-1.1",
            "x-amz-target": f"TrentService.{operation}",
            "authorization": scope,
        }
        try:
            connection.request("POST", "/", json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{operation}: {answer.status} {said.decode(errors='replace')}")
        return json.loads(said) if said else {}

    def create(self, alias: str) -> str:
        """A new key under an alias; its ARN."""
        arn = self.ask("CreateKey", {})["KeyMetadata"]["Arn"]
        self.ask("CreateAlias", {"AliasName": alias, "TargetKeyId": arn})
        return arn

    def _answers(self) -> None:
        try:
            self.ask("ListKeys", {})
        except (RuntimeError, http.client.HTTPException) as error:
            raise OSError(str(error)) from error
