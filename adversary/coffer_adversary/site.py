"""Attacks at the edge of the client site: a policy that others edited, a key server reached in
clear, secrets in settings.

Whoever can write to `policy.toml` without the passphrase must get nothing by it, also while an
application runs; and what an owner takes out of the policy is taken from what runs.
"""

from __future__ import annotations

import random
import shutil
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from coffer_adversary import pair, policy
from coffer_adversary.judge import DEFECTS, codes, named
from coffer_adversary.mutation import Outcome
from coffer_adversary.pair import Pair, Silent, field
from coffer_testing.owner import Owner
from coffer_testing.runner import Driver, QueryFailed

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster

_LOCAL = frozenset({"local"})
_numbers = count()
# The policy's files in a config directory.
_FILES = ("policy.toml", "policy.sig")

Answer = tuple[int, pair.Message]


class Trusted:
    """A config directory of its own with an engine that was admitted under its policy, and two
    earlier versions of that policy."""

    def __init__(self, cluster: AttackCluster) -> None:
        folder = cluster.folder / f"policy-{next(_numbers)}"
        self.owner = Owner.create(folder)
        self.folder = folder
        self.first = policy.read(self.owner)
        # A newer version that takes something away: what a roll-back would give again.
        self.text = self.first + "\n# the second version\n"
        self.keep("first")
        policy.write(self.owner, self.text)
        self.keep("second")
        self.stranger = Owner.create(folder / "stranger")
        self.pair = Pair(self.owner)
        self.id = self.pair.admitted()

    def keep(self, name: str) -> None:
        (self.folder / name).mkdir()
        for file in _FILES:
            if (self.owner.config_dir / file).exists():
                shutil.copy2(self.owner.config_dir / file, self.folder / name / file)

    def put_back(self, name: str) -> None:
        """The policy's files as they were under that name; the register is not a host's."""
        for file in _FILES:
            kept = self.folder / name / file
            if kept.exists():
                shutil.copy2(kept, self.owner.config_dir / file)
            else:
                (self.owner.config_dir / file).unlink(missing_ok=True)

    def stop(self) -> None:
        self.pair.stop()


def trusted(cluster: AttackCluster) -> Trusted:
    return cluster.keep("trusted", lambda: Trusted(cluster))


# ---- who writes to the policy without the passphrase -------------------------------------------

_EDITS = {
    "user": '\n[roles.all]\nread = "*"\nwrite = "*"\n\n[users.mallory]\naccount = 4711\nroles = '
    '["all"]\n',
    "comment": "\n# a comment\n",
    "role": '\n[roles.intern]\nread = "*"\n',
}


def _edited(site: Trusted, rng: random.Random) -> str:
    name = rng.choice(list(_EDITS))
    (site.owner.config_dir / "policy.toml").write_text(site.text + _EDITS[name])
    return f"a {name} written into it"


def _replaced(site: Trusted, _: random.Random) -> str:
    text = site.text.replace("unverified_inputs = []", 'unverified_inputs = ["/"]')
    assert text != site.text
    (site.owner.config_dir / "policy.toml").write_text(text)
    return "every plain file listed as an input"


def _rolled_back(site: Trusted, _: random.Random) -> str:
    site.put_back("first")
    return "policy and signature of the version before"


def _unsigned(site: Trusted, _: random.Random) -> str:
    (site.owner.config_dir / "policy.sig").unlink(missing_ok=True)
    return "its signature removed"


def _of_a_stranger(site: Trusted, _: random.Random) -> str:
    for file in _FILES:
        if (site.stranger.config_dir / file).exists():
            shutil.copy(site.stranger.config_dir / file, site.owner.config_dir / file)
    return "another owner's policy and signature"


def _signature_altered(site: Trusted, rng: random.Random) -> str | None:
    path = site.owner.config_dir / "policy.sig"
    if not path.exists():
        return None
    content = bytearray(path.read_bytes())
    at, bit = rng.randrange(len(content)), rng.randrange(8)
    content[at] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {at} of its signature"


def _removed(site: Trusted, _: random.Random) -> str:
    (site.owner.config_dir / "policy.toml").unlink()
    return "the policy removed"


_CHANGES: dict[str, Callable[[Trusted, random.Random], str | None]] = {
    "edited": _edited,
    "input-added": _replaced,
    "rolled-back": _rolled_back,
    "signature-removed": _unsigned,
    "signature-altered": _signature_altered,
    "of-another-owner": _of_a_stranger,
    "removed": _removed,
}


def _admission(site: Trusted) -> Answer:
    """Evidence of an engine, to the client engine that runs."""
    site.pair.begin()
    challenge = site.pair.challenge()
    kind, evidence = site.pair.attest(challenge)
    if kind != pair.EVIDENCE:
        raise Silent(f"the engine said {evidence}")
    return site.pair.admit(evidence, challenge)


def _release(site: Trusted) -> Answer:
    """Keys of a new session, for the engine that was admitted before."""
    site.pair.begin()
    kind, session = site.pair.to_client.ask(pair.NEW_SESSION, {})
    if kind != pair.SESSION:
        return kind, session
    return site.pair.to_client.ask(pair.RELEASE_KEYS, {1: field(session, 1), 2: site.id})


_GRANTED = frozenset({pair.ADMITTED, pair.KEYS_RELEASED})


@dataclass(frozen=True)
class Edited:
    """The policy's files become others while an application runs; then an engine asks to be
    admitted, or for keys."""

    name: str
    change: Callable[[Trusted, random.Random], str | None]
    needs: frozenset[str] = _LOCAL

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        site = trusted(cluster)
        asked, ask = rng.choice([("an admission", _admission), ("keys", _release)])
        what = self.change(site, rng)
        try:
            if what is None:
                return Outcome(False, "right_rows", "", "there is no signature")
            outcome = _judged(f"{what}, then {asked}", lambda: ask(site))
        finally:
            site.put_back("second")
        try:
            kind, answer = _release(site)
            sound = kind in _GRANTED
        except Silent as silent:
            sound, answer = False, {0: str(silent).encode()}
        if not sound:
            cluster.forget("trusted")
            return Outcome(
                True,
                "wrong",
                "not-restored",
                f"{outcome.detail}; with the policy put back: {answer}",
            )
        return outcome


def _judged(what: str, ask: Callable[[], Answer]) -> Outcome:
    try:
        kind, answer = ask()
    except pair.Refused as refused:
        kind, answer = refused.kind, refused.answer
    except Silent as silent:
        return Outcome(True, "wrong", "silent", f"{what}: {silent}")
    if kind in _GRANTED:
        return Outcome(True, "wrong", "granted", what)
    code = field(answer, 1).decode(errors="replace")
    if code not in codes() or code in DEFECTS:
        return Outcome(True, "wrong", code or "no-code", f"{what}: {answer}")
    return Outcome(True, "detected", code, f"{what}: {field(answer, 2)[:200]!r}")


@dataclass(frozen=True)
class Revoked:
    """The owner takes the kind of evidence that an engine gave out of the policy, and signs that;
    the engine, which runs on, asks for keys of a new session, or of the one that it serves."""

    name: str = "policy-kind-of-evidence-revoked"
    needs: frozenset[str] = _LOCAL

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        site = trusted(cluster)
        site.pair.begin()
        session = site.pair.session()
        accept = 'accept = ["simulated"]'
        without = site.text.replace(accept, "accept = []")
        if without == site.text:
            raise RuntimeError("the policy does not say what evidence it accepts")
        policy.write(site.owner, without)
        try:
            if rng.random() < 0.5:
                outcome = _judged("a new session", lambda: _release(site))
            else:
                request: pair.Message = {1: session, 2: site.id}
                outcome = _judged(
                    "the same session", lambda: site.pair.to_client.ask(pair.RELEASE_KEYS, request)
                )
        finally:
            # The owner thinks otherwise: a third version that says what the second did.
            cluster.forget("trusted")
        return outcome


# ---- secrets in settings -----------------------------------------------------------------------

_PLACES = {
    "a key of nobody": lambda secret: {"spark.my.setting": secret},
    "an executor's environment": lambda secret: {"spark.executorEnv.NOTHING": secret},
    "an option of the JVM": lambda secret: {
        "spark.executor.extraJavaOptions": f"-Dnothing={secret}"
    },
    "Hadoop's settings": lambda secret: {"spark.hadoop.fs.nothing": f"{secret}@host"},
    "a longer text": lambda secret: {"spark.app.description": f"see {secret} for more"},
}


@dataclass(frozen=True)
class Secret:
    """The passphrase stands in Spark's configuration, which every executor gets: the application
    must not start."""

    name: str = "secret-in-settings"
    needs: frozenset[str] = _LOCAL

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        target, conf = rng.choice(list(_PLACES.items()))
        secret = cluster.owner.passphrase_file.read_text().strip()
        try:
            driver = Driver(
                {},
                sealed=True,
                log=cluster.folder / "secret.log",
                config_dir=cluster.owner.config_dir,
                passphrase_file=cluster.owner.passphrase_file,
                conf=conf(secret),
            )
        except QueryFailed as error:
            if secret in error.message:
                return Outcome(True, "wrong", "secret-shown", f"{target}: the refusal names it")
            code = named(error.message)
            if code is None or code in DEFECTS:
                return Outcome(True, "wrong", code or "no-code", f"{target}: {error.message[:300]}")
            return Outcome(True, "detected", code, target)
        driver.stop()
        return Outcome(True, "wrong", "started", f"the passphrase in {target}")


# ---- a key server in clear ---------------------------------------------------------------------


class Ear:
    """Listens, and counts the bytes that come."""

    def __init__(self, host: str) -> None:
        self.heard = 0
        self._socket = socket.create_server((host, 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(5)
                self.heard += len(connection.recv(1 << 16))

    def stop(self) -> None:
        self._socket.close()


def outside() -> str | None:
    """An address of this machine that is not loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the system only says by which address it would be.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
    return None if address.startswith("127.") else address


_URIS = ("hadoop-kms:http://{}/kms?key=k&user=u", "aws-kms:alias/k?endpoint=http://{}")


@dataclass(frozen=True)
class InClear:
    """A KMS beyond this machine at an address of plain HTTP: the policy is refused, and no byte
    leaves."""

    name: str = "policy-kms-in-clear"
    needs: frozenset[str] = _LOCAL

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        address = outside()
        if address is None:
            return Outcome(False, "right_rows", "", "this machine has no address but loopback's")
        ear = Ear(address)
        folder = cluster.folder / f"clear-{next(_numbers)}"
        owner = Owner.create(folder)
        uri = rng.choice(_URIS).format(f"{address}:{ear.port}")
        try:
            (owner.config_dir / "policy.toml").write_text(
                policy.read(owner) + f'\n[masters]\nfar = "{uri}"\n'
            )
            if policy.signs(owner):
                owner.coffer("policy", "sign", "--yes", check=False)
            (folder / "plain").mkdir()
            (folder / "plain" / "rows.csv").write_text("a\n1\n")
            zone = owner.coffer(
                "keys", "zone", "add", folder / "sealed", "--master", "far", check=False
            )
            done = owner.coffer("encrypt", folder / "plain", folder / "sealed", check=False)
        finally:
            ear.stop()
            shutil.rmtree(folder, ignore_errors=True)
        reply = " ".join(f"{zone.stderr} {done.stderr}".split())[:300]
        if ear.heard:
            return Outcome(True, "wrong", "sent-in-clear", f"{uri}: {ear.heard} bytes; {reply}")
        if done.returncode == 0 or "http" not in reply.lower():
            return Outcome(True, "wrong", "not-refused", f"{uri}: {reply}")
        return Outcome(True, "detected", "policy", f"{uri}: {reply}")


MUTATIONS = (
    *(Edited(f"policy-{name}", change) for name, change in _CHANGES.items()),
    Revoked(),
    Secret(),
)
