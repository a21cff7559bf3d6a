"""Masters outside of the keyring, against real servers on loopback: what is sealed under each opens
again, and when a server is away, slow, in doubt or unwilling, the command ends in time with the
cause and a hint, and nothing is half done."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coffer import find_binary
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed
from coffer_testing.servers import AwsKms, HadoopKms, Relay, SoftHsm
from coffer_testing.servers.aws_kms import CREDENTIALS
from coffer_testing.servers.softhsm import NotInstalledError

SQL = "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g ORDER BY g"
LONG = (
    "SELECT count(*) AS n FROM t a JOIN t b ON a.g = b.g JOIN t c ON b.g = c.g WHERE c.v < "
    "700 AND a.v + b.v + c.v >= 0"
)
GENERATE, DECRYPT = "_eek?eek_op=generate", "_eek?eek_op=decrypt"


@pytest.fixture(scope="module")
def hadoop(base: Path) -> Iterator[HadoopKms]:
    server = HadoopKms(base / "hadoop-kms").start()
    try:
        server.create("payroll")
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def aws(base: Path) -> Iterator[AwsKms]:
    server = AwsKms(base / "aws-kms").start()
    try:
        server.create("alias/payroll")
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def hsm(base: Path) -> SoftHsm:
    try:
        token = SoftHsm(base / "softhsm")
    except NotInstalledError as missing:
        pytest.skip(str(missing))
    token.create("payroll")
    return token


@pytest.fixture(scope="module")
def rows(base: Path) -> Path:
    file = base / "masters-rows.parquet"
    pq.write_table(pa.table({"g": [n % 7 for n in range(5000)], "v": list(range(5000))}), file)
    return file


# As in the reference of AWS STS, under "Common Errors".
STS_REFUSAL = (
    '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
    "<Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match"
    "</Message></Error><RequestId>0</RequestId></ErrorResponse>"
)


class Site:
    """An owner whose new tables have the master `payroll` of this URI."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder = folder
        self.owner = Owner.create(folder)
        self.name(uri, default=True)

    def name(self, uri: str, *, default: bool = False) -> None:
        """Puts the URI into the policy, as the only one."""
        text = self.owner.policy.split("\n[masters]\n")[0]
        if default:
            assert text.count('\nmaster = "main"\n') == 1
            text = text.replace('\nmaster = "main"\n', '\nmaster = "payroll"\n')
        head, at, tail = text.partition("\n[tables.")
        assert "'" not in uri
        self.owner.sign(f"{head}{at}{tail}\n[masters]\npayroll = '{uri}'\n")

    def seal(self, rows: Path, name: str = "t") -> Path:
        self.owner.coffer("encrypt", rows, self.folder / name)
        return self.folder / name

    def opens(self, name: str = "t") -> int:
        """How many rows come back."""
        back = self.folder / f"{name}-back.parquet"
        back.unlink(missing_ok=True)
        self.owner.coffer("decrypt", self.folder / name, back)
        return pq.read_metadata(back).num_rows

    def refused(self, *arguments: str | Path) -> str:
        """The words of a command that must end with the exit code of keys."""
        done = self.owner.coffer(*arguments, check=False)
        assert done.returncode == 3, (done.returncode, done.stdout, done.stderr)
        assert "\nhint: " in done.stderr
        return done.stderr


def test_a_table_under_each_kind_of_master(
    tmp_path: Path,
    rows: Path,
    hadoop: HadoopKms,
    aws: AwsKms,
    hsm: SoftHsm,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {**CREDENTIALS, **hsm.environment}.items():
        monkeypatch.setenv(name, value)
    masters = {
        "hadoop": hadoop.uri("payroll"),
        "aws": aws.uri("alias/payroll"),
        "gcm": hsm.uri("payroll"),
        "wrap": hsm.uri("payroll", mechanism="aes-key-wrap-pad"),
        "keyring": "keyring:main",
    }
    for kind, uri in masters.items():
        site = Site(tmp_path / kind, uri)
        site.seal(rows)
        assert site.opens() == 5000, kind
        assert '"payroll"' in site.owner.coffer("keys", "list", "--json").stdout, kind


def test_tls_is_the_policys_certificates_or_nothing(tmp_path: Path, rows: Path) -> None:
    server = HadoopKms(tmp_path / "kms", tls=True).start()
    try:
        server.create("payroll")
        site = Site(tmp_path / "config", server.uri("payroll"))
        site.seal(rows)
        assert site.opens() == 5000
        # The system's authorities do not know it.
        site.name(server.uri("payroll").replace("&ca=", "&user2=").split("&user2=")[0])
        assert "TLS" in site.refused("verify", site.folder / "t")
    finally:
        server.stop()


def test_a_dead_server_is_passed_over_and_a_dead_kms_is_said(tmp_path: Path, rows: Path) -> None:
    server = HadoopKms(tmp_path / "kms").start()
    try:
        server.create("payroll")
        uri = server.uri("payroll", timeout=60)
        site = Site(tmp_path / "config", uri.replace("http://", "http://127.0.0.1:9,"))
        site.seal(rows)
        assert site.opens() == 5000
        server.kill()
        start = time.monotonic()
        words = site.refused("verify", site.folder / "t")
        assert "cannot be reached" in words and "connection refused" in words
        assert time.monotonic() - start < 60
        # Nothing of a table that could not get its key stays behind.
        site.refused("encrypt", rows, site.folder / "u")
        assert not (site.folder / "u").exists()
        server.start()
        assert site.opens() == 5000
        site.seal(rows, "u")
    finally:
        server.stop()


def test_what_a_kms_refuses_is_told_apart(tmp_path: Path, rows: Path, hadoop: HadoopKms) -> None:
    site = Site(tmp_path, hadoop.uri("payroll"))
    site.seal(rows)
    site.name(hadoop.uri("payroll", user="mallory"))
    words = site.refused("verify", site.folder / "t")
    assert "denies it" in words and "mallory" in words
    site.name(hadoop.uri("nobody-made-it"))
    assert 'has no key "nobody-made-it"' in site.refused("encrypt", rows, site.folder / "u")
    hadoop.create("short", bits=128)
    site.name(hadoop.uri("short"))
    assert "has 128 bits" in site.refused("encrypt", rows, site.folder / "u")
    # Deleted and made again under its name: the version that wrapped is another's material now, or
    # gone.
    hadoop.create("brief")
    site.name(hadoop.uri("brief"))
    site.seal(rows, "b")
    hadoop.delete("brief")
    assert 'has no key "brief"' in site.refused("verify", site.folder / "b")
    hadoop.create("brief")
    site.refused("verify", site.folder / "b")
    site.owner.sign(site.owner.policy.split("\n[masters]\n")[0])
    assert "neither in [masters]" in site.refused("verify", site.folder / "t")


def test_slow_garbled_and_failing_answers(tmp_path: Path, rows: Path, hadoop: HadoopKms) -> None:
    relay = Relay(hadoop.address)
    try:
        patient, hasty = (
            hadoop.uri("payroll", timeout=timeout).replace(hadoop.address, relay.address)
            for timeout in (30, 2)
        )
        site = Site(tmp_path, patient)
        site.seal(rows)
        site.name(hasty)
        for fault, words in [
            ("slow", "no answer within"),
            ("garbage", "what no such server answers"),
            ("deny", "denies it"),
            ("later", "status 503"),
            ("hang up", "cannot be reached"),
        ]:
            relay.fault = lambda _, fault=fault: fault
            start = time.monotonic()
            assert words in site.refused("verify", site.folder / "t"), fault
            assert time.monotonic() - start < 30, fault
        # A server that stumbles once is no failure.
        site.name(patient)
        stumbles = iter(["hang up", "later"])
        relay.fault = lambda _: next(stumbles, None)
        assert site.opens() == 5000
    finally:
        relay.stop()


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without AWS credentials, on what is no instance of EC2."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    home = tmp_path / "user"
    (home / ".aws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home / ".aws"


@pytest.mark.usefixtures("alone")
def test_aws_refusals(
    tmp_path: Path, rows: Path, aws: AwsKms, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, aws.uri("alias/brief"))
    missing = site.owner.coffer("encrypt", rows, tmp_path / "t", check=False)
    assert missing.returncode == 3 and "no credentials" in missing.stderr
    # As the AWS tools have them: a file of profiles.
    profiles = tmp_path / "credentials"
    profiles.write_text(
        "[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = not-a-secret\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    assert "has no key" in site.refused("encrypt", rows, tmp_path / "t")
    aws.create("alias/brief")
    site.seal(rows)
    assert site.opens() == 5000
    # What moto never says, as Amazon words it.
    relay = Relay(aws.address)
    try:
        site.name(aws.uri("alias/brief", relay.address, timeout=2))
        for kind, words in [
            ("DisabledException", "switched off"),
            ("AccessDeniedException", "denies it"),
            ("com.amazonaws.kms#NotFoundException", "no longer has version"),
            ("InvalidCiphertextException", "was altered, or is another's"),
            ("ThrottlingException", "cannot be reached"),
        ]:
            relay.fault = lambda _, kind=kind: f'{{"__type": "{kind}", "message": "of a test"}}'
            assert words in site.refused("verify", tmp_path / "t"), kind
        relay.fault = lambda _: None
        site.name(aws.uri("alias/brief", relay.address, timeout=30))
        assert site.opens() == 5000
    finally:
        relay.stop()


def test_aws_roles_and_signatures(
    tmp_path: Path, rows: Path, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a server that checks signatures, by botocore, and rights."""
    server = AwsKms(tmp_path / "aws").start()
    sts = Relay(server.address)
    try:
        server.create("alias/payroll")
        guard = server.guard()
        uri = server.uri("alias/payroll", profile="keys", cache=0)
        profiles = f"""
            [profile user]
            aws_access_key_id = {guard.key_id}
            aws_secret_access_key = {guard.secret}
            [profile keys]
            role_arn = {guard.role}
            source_profile = user
            services = here
            [profile nobody]
            role_arn = {guard.role}-of-nobody
            source_profile = user
            services = here
            [profile process]
            credential_process = cat {alone}/lent
            [profile nothing]
            region = eu-west-1
            [services here]
            sts =
              endpoint_url = {sts.address}
            """
        config = alone / "config"
        config.write_text(textwrap.dedent(profiles))
        site = Site(tmp_path, uri)
        site.seal(rows)
        assert sts.seen
        assert site.opens() == 5000
        # A profile that the policy names goes before the environment.
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        assert site.opens() == 5000
        for name in CREDENTIALS:
            monkeypatch.delenv(name)
        # A query asks the KMS often, as nothing is cached, and assumes the role once.
        sts.seen.clear()
        kms = Relay(server.address)
        try:
            site.name(server.uri("alias/payroll", kms.address, profile="keys", cache=0))
            with Driver(
                {"t": tmp_path / "t"},
                sealed=True,
                log=tmp_path / "driver.log",
                config_dir=site.owner.config_dir,
                passphrase_file=site.owner.passphrase_file,
            ) as driver:
                assert len(driver.query(SQL).rows) == 7
            asked = sum(what.endswith("Decrypt") for what in kms.seen)
            assert asked > 1 and len(sts.seen) == 1, (kms.seen, sts.seen)
        finally:
            kms.stop()
        # The user itself may not use keys; nor is anything signed with another secret.
        site.name(server.uri("alias/payroll", profile="user"))
        words = site.refused("verify", tmp_path / "t")
        assert "denies it" in words and "AccessDenied" in words
        other = guard.secret[:-1] + ("a" if guard.secret[-1] != "a" else "b")
        config.write_text(config.read_text().replace(guard.secret, other))
        words = site.refused("verify", tmp_path / "t")
        assert "denies it" in words and "SignatureDoesNotMatch" in words
        # STS itself refuses, and is away.
        site.name(uri)
        words = site.refused("verify", tmp_path / "t")
        assert "cannot be asked" in words and "service error" in words
        # In STS's own form, which moto's answer has not.
        sts.fault = lambda _: STS_REFUSAL
        words = site.refused("verify", tmp_path / "t")
        assert "cannot be asked" in words and "SignatureDoesNotMatch" in words
        config.write_text(config.read_text().replace(other, guard.secret))
        # Nor may everybody take every role; moto lends one that it has not.
        sts.fault = lambda _: STS_REFUSAL.replace("SignatureDoesNotMatch", "AccessDenied")
        site.name(uri.replace("profile=keys", "profile=nobody"))
        words = site.refused("verify", tmp_path / "t")
        assert "cannot be asked" in words and "AccessDenied" in words
        sts.fault = lambda _: None
        # A profile that gives none, or is not there, is not stood in for by the environment's.
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        for profile, said in [
            ("nothing", 'no credentials in the profile "nothing"'),
            ("missing", "profile `missing` was not defined"),
        ]:
            site.name(uri.replace("profile=keys", f"profile={profile}"))
            words = site.refused("verify", tmp_path / "t")
            assert said in words
        for name in CREDENTIALS:
            monkeypatch.delenv(name)
        # What a program of the profile hands out.
        site.name(uri.replace("profile=keys", "profile=process"))
        words = site.refused("verify", tmp_path / "t")
        assert "cannot be asked" in words and "external process" in words
        keys = {"Version": 1, "AccessKeyId": guard.key_id, "SecretAccessKey": guard.secret}
        (alone / "lent").write_text(json.dumps(keys))
        assert "kms:Decrypt" in site.refused("verify", tmp_path / "t")
        sts.fault = lambda _: "hang up"
        site.name(uri + "&timeout=3")
        start = time.monotonic()
        assert "cannot be reached" in site.refused("verify", tmp_path / "t")
        assert time.monotonic() - start < 30
        sts.fault = lambda _: None
        assert site.opens() == 5000
    finally:
        sts.stop()
        server.stop()


@pytest.mark.usefixtures("alone")
def test_aws_credentials_of_the_machine(
    tmp_path: Path, rows: Path, aws: AwsKms, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.create("alias/machine")
    uri = aws.uri("alias/machine")
    site = Site(tmp_path, uri)
    # An instance's, by its metadata service.
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    # An instance says how long its token is good for; moto does not.
    instance = Relay(aws.address, headers={"x-aws-ec2-metadata-token-ttl-seconds": "21600"})
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", instance.address)
    relay = Relay(aws.address)
    try:
        site.name(aws.uri("alias/machine", relay.address))
        site.seal(rows)
        assert site.opens() == 5000
        assert relay.credentials == {"test-key"}
        # A container's, which go before it.
        answer = {
            "AccessKeyId": "of-a-container",
            "SecretAccessKey": "not-a-secret",
            "Token": "t",
            "Expiration": "2099-01-01T00:00:00Z",
        }
        container = Relay(aws.address, lambda _: "= " + json.dumps(answer))
        try:
            monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{container.address}/me")
            relay.credentials.clear()
            assert site.opens() == 5000
            assert relay.credentials == {"of-a-container"} and "/me" in container.seen
        finally:
            container.stop()
    finally:
        relay.stop()
        instance.stop()
    # Nobody is there who would lend any: said in time.
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9")
    site.name(uri + "&timeout=10")
    start = time.monotonic()
    site.refused("verify", tmp_path / "t")
    assert time.monotonic() - start < 60


def test_aws_program_that_is_missing(tmp_path: Path, rows: Path, aws: AwsKms, alone: Path) -> None:
    aws.create("alias/missing")
    (alone / "credentials").write_text(
        "[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = not-a-secret\n"
    )
    site = Site(tmp_path, aws.uri("alias/missing"))
    site.seal(rows)
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy2(find_binary("coffer"), programs)
    site.owner = replace(site.owner, programs=programs)
    words = site.refused("verify", tmp_path / "t")
    assert "coffer-aws" in words and f"is not at {programs}/coffer-aws" in words
    shutil.copy2(find_binary("coffer-aws"), programs)
    assert site.opens() == 5000


def test_aws_secrets_in_sparks_settings(
    tmp_path: Path, rows: Path, aws: AwsKms, alone: Path
) -> None:
    aws.create("alias/settings")
    (alone / "credentials").write_text(
        "[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = quite/a+secret\n"
    )
    site = Site(tmp_path, aws.uri("alias/settings"))
    site.seal(rows)
    with (
        pytest.raises(Exception, match="AWS credentials of the master"),
        Driver(
            {"t": tmp_path / "t"},
            sealed=True,
            log=tmp_path / "driver.log",
            config_dir=site.owner.config_dir,
            passphrase_file=site.owner.passphrase_file,
            conf={"spark.hadoop.fs.s3a.secret.key": "quite/a+secret"},
        ) as driver,
    ):
        driver.query(SQL)


def test_a_wrong_pin_and_a_token_that_is_away(
    tmp_path: Path, rows: Path, hsm: SoftHsm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in hsm.environment.items():
        monkeypatch.setenv(name, value)
    site = Site(tmp_path, hsm.uri("payroll"))
    site.seal(rows)
    wrong = tmp_path / "wrong"
    wrong.write_text("000000\n")
    site.name(hsm.uri("payroll").replace(str(hsm.pin_file), str(wrong)))
    assert "wrong PIN" in site.refused("verify", tmp_path / "t")
    site.name(hsm.uri("payroll").replace("token=coffer", "token=gone"))
    assert "no such token" in site.refused("verify", tmp_path / "t")
    site.name(hsm.uri("payroll").replace(str(hsm.module), "/nowhere.so"))
    assert "cannot be asked" in site.refused("verify", tmp_path / "t")


def test_queries_ask_once_and_live_through_a_dead_kms(tmp_path: Path, rows: Path) -> None:
    server = HadoopKms(tmp_path / "kms").start()
    relay = Relay(server.address)
    asked = lambda: sum(DECRYPT in what for what in relay.seen)  # noqa: E731
    try:
        server.create("payroll")
        site = Site(
            tmp_path / "config",
            server.uri("payroll", timeout=20).replace(server.address, relay.address),
        )
        tables = {"t": site.seal(rows, "t"), "u": site.seal(rows, "u")}
        relay.seen.clear()
        with Driver(
            {"t": tables["t"]},
            sealed=True,
            log=tmp_path / "driver.log",
            config_dir=site.owner.config_dir,
            passphrase_file=site.owner.passphrase_file,
        ) as driver:
            first = driver.query(SQL)
            assert len(first.rows) == 7
            assert driver.query(SQL).rows == first.rows
            assert asked() == 1, relay.seen
            # Killed under a running query: what it needs it has. In each of seven groups every pair
            # meets each of a hundred.
            with ThreadPoolExecutor(1) as pool:
                running = pool.submit(driver.query, LONG)
                time.sleep(1)
                server.kill()
                assert not running.done(), "the query was over before the KMS was killed"
                groups = [(5000 - g + 6) // 7 for g in range(7)]
                assert running.result(timeout=300).rows == [[str(sum(n * n * 100 for n in groups))]]
            assert driver.query(SQL).rows == first.rows
            assert asked() == 1
            # Another table's key is not here yet: a clear end, and in time.
            start = time.monotonic()
            with pytest.raises(QueryFailed) as failed:
                driver.run(
                    "result = spark.read.format('coffer').load(path).count()", path=str(tables["u"])
                )
            assert "cannot be reached" in str(failed.value)
            assert time.monotonic() - start < 90
            # Comes back while a query waits for it: that goes on.
            relay.fault = lambda _: "later"
            server.start()
            with ThreadPoolExecutor(1) as pool:
                before = asked()
                code = "result = spark.read.format('coffer').load(path).count()"
                waiting = pool.submit(driver.run, code, path=str(tables["u"]))
                while asked() == before and not waiting.done():
                    time.sleep(0.05)
                relay.fault = lambda _: None
                assert waiting.result(timeout=120) == 5000
            assert driver.query(SQL).rows == first.rows
    finally:
        relay.stop()
        server.stop()
