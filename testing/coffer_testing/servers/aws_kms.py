"""An AWS KMS on loopback, with AWS's other services: moto's server, which keeps keys in memory. It
takes any credentials, until `guard` has it check signatures and rights."""

from __future__ import annotations

import http.client
import json
import sys
import urllib.parse
from pathlib import Path
from typing import NamedTuple

from coffer_testing.servers.process import ServerProcess

REGION = "eu-west-1"
# Whoever knows these may do nothing anywhere.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIDTEST",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_REGION": REGION,
}
ACCOUNT = "123456789012"


class Guard(NamedTuple):
    """Who may do what on a guarded server: a user may assume a role, which may use keys."""

    key_id: str
    secret: str
    role: str


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
        scope = (
            f"AWS4-HMAC-SHA256 Credential=AKIDTEST/20260101/{REGION}/kms/aws4_request, "
            "SignedHeaders=host, Signature=0"
        )
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

    def guard(self) -> Guard:
        """From now on signatures and rights are checked: `ask` and `create` are refused."""
        import boto3  # it comes with moto

        iam = boto3.client(
            "iam",
            endpoint_url=self.address,
            region_name=REGION,
            aws_access_key_id="AKIDTEST",
            aws_secret_access_key="not-a-secret",
        )
        iam.create_user(UserName="user")
        user = {"Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:user/user"}}
        may = _policy({"Action": "sts:AssumeRole", "Resource": "*"})
        iam.put_user_policy(UserName="user", PolicyName="assumes", PolicyDocument=may)
        trusts = _policy({"Action": "sts:AssumeRole", **user})
        role = iam.create_role(RoleName="keys", AssumeRolePolicyDocument=trusts)["Role"]["Arn"]
        uses = _policy({"Action": "kms:*", "Resource": "*"})
        iam.put_role_policy(RoleName="keys", PolicyName="uses", PolicyDocument=uses)
        key = iam.create_access_key(UserName="user")["AccessKey"]
        connection = http.client.HTTPConnection("127.0.0.1", self.process.port, timeout=10)
        try:
            # After so many requests.
            connection.request("POST", "/moto-api/reset-auth", "0")
            assert connection.getresponse().status == 200
        finally:
            connection.close()
        return Guard(key["AccessKeyId"], key["SecretAccessKey"], role)

    def _answers(self) -> None:
        try:
            self.ask("ListKeys", {})
        except (RuntimeError, http.client.HTTPException) as error:
            raise OSError(str(error)) from error


def _policy(statement: dict[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})
