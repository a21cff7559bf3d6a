"""Mutations about who an engine is and whom it serves: evidence, challenges, owners, and releases
of keys.

Simulated evidence measures nothing: an engine of another build shows itself by its version, and by
a report that is another. What a quote of real hardware must say is a matter of its verifier, and of
recorded quotes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coffer_adversary import pair
from coffer_adversary.judge import DEFECTS, codes
from coffer_adversary.mutation import Outcome
from coffer_adversary.pair import Message, Pair, Silent, field
from coffer_testing.owner import Owner

if TYPE_CHECKING:
    from coffer_adversary.attack_cluster import AttackCluster

# Fields of EngineEvidence and of Release.
_PROTOCOL, _KIND, _KEY, _REPORT, _VERSION = 1, 2, 3, 4, 5
_ENCAPSULATED, _SEQUENCE, _CIPHERTEXT = 1, 2, 3

_REFUSALS = frozenset({pair.REFUSED, pair.FAILED, pair.PROBLEM})


class Sites:
    """The owner's pair, attested, and a stranger's: another owner with an engine of their own."""

    def __init__(self, cluster: AttackCluster) -> None:
        self.own = Pair(cluster.owner)
        self.strange = Pair(Owner.create(cluster.folder / "second-driver"))
        self.id = self.own.admitted()
        self.strange_id = self.strange.admitted()

    def begin(self) -> None:
        self.own.begin()
        self.strange.begin()

    def sound(self) -> str | None:
        """What is amiss, if the owner's pair no longer does what it should."""
        try:
            self.begin()
            self.id = self.own.admitted()
            kind, answer = self.own.to_engine.ask(
                pair.RELEASE, self.own.release(self.own.session(), self.id)
            )
        except Silent as silent:
            return str(silent)
        if kind != pair.RELEASED:
            return f"the engine refused its owner: {answer}"
        if "panick" in self.own.engine.log.read_text() + self.own.client.log.read_text():
            return "a panic is in the logs"
        return None

    def stop(self) -> None:
        self.own.stop()
        self.strange.stop()


Answer = tuple[int, Message]
Tell = Callable[[Sites, random.Random], tuple[str, Answer]]


@dataclass(frozen=True)
class Sent:
    """One message that is not what it says; whoever gets it must refuse it by a code, and go on
    serving its owner."""

    name: str
    tell: Tell
    needs: frozenset[str] = frozenset({"local"})

    def attempt(self, cluster: AttackCluster, rng: random.Random) -> Outcome:
        sites = cluster.keep("sites", lambda: Sites(cluster))
        sites.begin()
        try:
            what, (kind, answer) = self.tell(sites, rng)
        except Silent as silent:
            return Outcome(True, "wrong", "silent", str(silent))
        amiss = sites.sound()
        if amiss is not None:
            return Outcome(True, "wrong", "unsound", f"{what}: {amiss}")
        code = field(answer, 1).decode(errors="replace") if kind in _REFUSALS else ""
        if code not in codes() or code in DEFECTS:
            return Outcome(True, "wrong", code or "accepted", f"{what}: message {kind}")
        return Outcome(True, "detected", code, what)


# ---- to the engine -----------------------------------------------------------------------------


def _second_driver(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    key = rng.choice([sites.strange.owner_key, rng.randbytes(32)])
    return f"owner key {key.hex()}", sites.own.attest(rng.randbytes(32), key)


def _owner_key_malformed(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    key = rng.randbytes(rng.choice([1, 31, 33, 64, 1000]))
    return f"an owner key of {len(key)} bytes", sites.own.attest(rng.randbytes(32), key)


def _attest_otherwise(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    request: Message = {
        1: pair.PROTOCOL,
        2: sites.own.owner_key,
        3: rng.randbytes(32),
        4: Pair.APPLICATION,
    }
    what = rng.choice(["protocol", "challenge", "application"])
    if what == "protocol":
        request[1] = rng.choice([0, 2, 3, 2**32 - 1])
    elif what == "challenge":
        request[3] = rng.randbytes(rng.choice([0, 1, 31, 33]))
    else:
        request[4] = b"a" * rng.choice([70_000, 1 << 20])
    return f"another {what}", sites.own.to_engine.ask(pair.ATTEST, request)


def _release_changed(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    release = sites.own.release(sites.own.session(), sites.id)
    which = rng.choice([_ENCAPSULATED, _SEQUENCE, _CIPHERTEXT])
    # One of a number that was taken before would change nothing, and be taken for a repetition.
    release[which] = (
        rng.choice([2**32, 2**64 - 1])
        if which == _SEQUENCE
        else _otherwise(field(release, which), rng)
    )
    return f"a release with another field {which}", sites.own.to_engine.ask(pair.RELEASE, release)


def _release_for_another_engine(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    release = sites.own.release(sites.own.session(), sites.id)
    del rng
    return "the owner's release to a stranger's engine", sites.strange.to_engine.ask(
        pair.RELEASE, release
    )


def _release_by_another_owner(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    release = sites.strange.release(sites.strange.session(), sites.strange_id)
    del rng
    return "a stranger's release to the owner's engine", sites.own.to_engine.ask(
        pair.RELEASE, release
    )


def _release_of_fields_mixed(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    one = sites.own.release(sites.own.session(), sites.id)
    other = sites.own.release(sites.own.session(), sites.id)
    which = rng.choice([_CIPHERTEXT, _SEQUENCE])
    one[which] = other.get(which, 0)
    return f"a release with field {which} of another", sites.own.to_engine.ask(pair.RELEASE, one)


def _release_to_a_new_engine(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    """The engine was ended and another one started in its place: it has another key, and has
    attested to nobody."""
    del rng
    release = sites.own.release(sites.own.session(), sites.id)
    engine = pair.Process("coffer-engine", "--memory", "64MiB", "--evidence", "simulated")
    try:
        connection = engine.connect()
        answer = connection.ask(pair.RELEASE, release)
        connection.close()
    finally:
        engine.stop()
    return "an earlier engine's release to a new one", answer


def _of_an_ended_session(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    """A task of a session that has ended at the client: the client engine gives no keys for it."""
    session = sites.own.session()
    sites.own.to_client.ask(pair.END_SESSION, {1: session})
    del rng
    return "keys of an ended session", sites.own.to_client.ask(
        pair.RELEASE_KEYS, {1: session, 2: sites.id}
    )


# ---- to the client engine ----------------------------------------------------------------------


def _evidence(sites: Sites) -> tuple[bytes, Message]:
    challenge = sites.own.challenge()
    kind, evidence = sites.own.attest(challenge)
    if kind != pair.EVIDENCE:
        raise Silent(f"the engine said {evidence}")
    return challenge, evidence


def _with(change: Callable[[Message, random.Random, Sites], str]) -> Tell:
    """Evidence as it came but for one thing."""

    def tell(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
        challenge, evidence = _evidence(sites)
        what = change(evidence, rng, sites)
        return what, sites.own.admit(evidence, challenge)

    return tell


def _other_key(evidence: Message, rng: random.Random, sites: Sites) -> str:
    _, strange = sites.strange.attest(rng.randbytes(32))
    evidence[_KEY] = rng.choice(
        [field(strange, _KEY), rng.randbytes(32), bytes(32), _otherwise(field(evidence, _KEY), rng)]
    )
    return f"evidence over the key {field(evidence, _KEY).hex()}"


def _other_report(evidence: Message, rng: random.Random, sites: Sites) -> str:
    _, strange = sites.strange.attest(rng.randbytes(32))
    report = field(evidence, _REPORT)
    evidence[_REPORT] = rng.choice(
        [
            _otherwise(report, rng),
            field(strange, _REPORT),
            report[: rng.randrange(len(report))],
            report + b"\0",
            b"",
        ]
    )
    return f"a report of {len(field(evidence, _REPORT))} bytes that is another"


def _other_version(evidence: Message, rng: random.Random, _: Sites) -> str:
    version = field(evidence, _VERSION)
    evidence[_VERSION] = rng.choice(
        [
            b"",
            b"0.0.9",
            version + b"1",
            version + b"+unsealed",
            b"9" * 5000,
            rng.randbytes(3).hex().encode(),
        ]
    )
    return f"version {field(evidence, _VERSION)[:40]!r}"


def _other_kind(evidence: Message, rng: random.Random, _: Sites) -> str:
    evidence[_KIND] = rng.choice(
        [b"sgx", b"tdx", b"sev-snp", b"tpm", b"", b"unsealed", b"Simulated", b"x" * 3000]
    )
    return f"kind {field(evidence, _KIND)[:40]!r}"


def _other_protocol(evidence: Message, rng: random.Random, _: Sites) -> str:
    evidence[_PROTOCOL] = rng.choice([0, 2, 2**32 - 1])
    return f"protocol {evidence[_PROTOCOL]}"


def _without_a_field(evidence: Message, rng: random.Random, _: Sites) -> str:
    which = rng.choice([_PROTOCOL, _KIND, _KEY, _REPORT, _VERSION])
    del evidence[which]
    return f"no field {which}"


def _noise(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    challenge, _ = _evidence(sites)
    evidence = rng.randbytes(rng.choice([0, 1, 40, 3000]))
    return f"{len(evidence)} bytes of noise", sites.own.to_client.ask(
        pair.ADMIT_ENGINE, {1: evidence, 2: challenge}
    )


def _again(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    challenge, evidence = _evidence(sites)
    sites.own.admit(evidence, challenge)
    del rng
    return "evidence that was admitted before", sites.own.admit(evidence, challenge)


def _old_challenge(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    _, evidence = _evidence(sites)
    del rng
    return "evidence over an earlier challenge", sites.own.admit(evidence, sites.own.challenge())


def _made_up_challenge(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    challenge = rng.randbytes(rng.choice([0, 16, 31, 32, 33]))
    if len(challenge) == 32:
        kind, evidence = sites.own.attest(challenge)
        if kind != pair.EVIDENCE:
            raise Silent(f"the engine said {evidence}")
    else:
        _, evidence = _evidence(sites)
    return f"a challenge of {len(challenge)} bytes that nobody drew", sites.own.admit(
        evidence, challenge
    )


def _for_another_owner(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    del rng
    challenge = sites.own.challenge()
    _, evidence = sites.strange.attest(challenge)
    return "evidence over our challenge, made for a stranger", sites.own.admit(evidence, challenge)


def _stolen(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    del rng
    challenge = sites.strange.challenge()
    _, evidence = sites.own.attest(challenge)
    return "the owner's engine presented to a second driver", sites.strange.admit(
        evidence, challenge
    )


def _unknown_engine(sites: Sites, rng: random.Random) -> tuple[str, Answer]:
    engine = rng.choice([rng.randbytes(16).hex().encode(), sites.strange_id, b"", sites.id[:-1]])
    return f"keys for the engine {engine!r}", sites.own.to_client.ask(
        pair.RELEASE_KEYS, {1: sites.own.session(), 2: engine}
    )


def _otherwise(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


MUTATIONS = (
    Sent("engine-second-owner", _second_driver),
    Sent("engine-owner-key-malformed", _owner_key_malformed),
    Sent("engine-attest-otherwise", _attest_otherwise),
    Sent("release-changed", _release_changed),
    Sent("release-for-another-engine", _release_for_another_engine),
    Sent("release-by-another-owner", _release_by_another_owner),
    Sent("release-of-two-mixed", _release_of_fields_mixed),
    Sent("release-to-a-new-engine", _release_to_a_new_engine),
    Sent("release-of-an-ended-session", _of_an_ended_session),
    Sent("release-for-an-unknown-engine", _unknown_engine),
    Sent("admission-over-another-key", _with(_other_key)),
    Sent("admission-of-another-report", _with(_other_report)),
    Sent("admission-of-another-version", _with(_other_version)),
    Sent("admission-of-another-kind", _with(_other_kind)),
    Sent("admission-of-another-protocol", _with(_other_protocol)),
    Sent("admission-without-a-field", _with(_without_a_field)),
    Sent("admission-of-noise", _noise),
    Sent("admission-again", _again),
    Sent("admission-of-an-old-challenge", _old_challenge),
    Sent("admission-of-no-challenge", _made_up_challenge),
    Sent("admission-for-another-owner", _for_another_owner),
    Sent("admission-by-a-second-driver", _stolen),
)
