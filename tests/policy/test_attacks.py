"""Every script under `attacks/` tries one thing against the sandbox; its first line says what.

Contained means: no canary file, no word of the secret, no forged action, and a decision in time: by the platform
policy, or a harmless one of the script itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.policy.host import PolicyHost
from headgate.policy.runtime import PolicyRefused
from headgate.policy.stopwatch import seconds
from headgate.policy.verdict import HostSettings, Verdict
from tests.policy.world import QUESTION, state

ATTACKS = sorted((Path(__file__).parent / "attacks").glob("*.lua"))
SECRET = "canary-3f9c1e"
# The goal is the limit plus 100 ms; a loaded machine gets a wide margin, since this is no benchmark.
PATIENCE_S = 5.0


@pytest.fixture(scope="module")
def besieged() -> Iterator[PolicyHost]:
    os.environ["HEADGATE_CANARY"] = SECRET
    host = PolicyHost(HostSettings(), resync=state)
    host.start()
    yield host
    host.stop()
    del os.environ["HEADGATE_CANARY"]


def test_there_are_at_least_a_hundred_attacks() -> None:
    assert len(ATTACKS) >= 100


@pytest.mark.parametrize("script", ATTACKS, ids=lambda path: path.stem)
def test_an_attack_is_contained(besieged: PolicyHost, script: Path, tmp_path: Path) -> None:
    victim = tmp_path / "canary.victim"
    victim.write_text("untouched")
    text = script.read_bytes().replace(b"@CANARY@", str(tmp_path / "canary").encode())
    verdicts = ask_twice(besieged, text)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["canary.victim"]
    assert victim.read_text() == "untouched"
    for verdict in verdicts:
        assert_harmless(verdict)


def ask_twice(host: PolicyHost, text: bytes) -> list[Verdict]:
    """Two decisions under the script; one that is refused at loading never gets so far."""
    try:
        host.load(text.decode("utf-8", "surrogateescape"), "attack")
    except (PolicyRefused, UnicodeEncodeError):
        return [timed(host)]
    first = timed(host)
    host.wait_ready()
    return [first, timed(host)]


def timed(host: PolicyHost) -> Verdict:
    begun = seconds()
    verdict = host.ask(QUESTION)
    assert seconds() - begun < PATIENCE_S
    return verdict


def assert_harmless(verdict: Verdict) -> None:
    said = repr(verdict)
    assert "ESCAPED" not in said
    assert SECRET not in said
    if verdict.failure is not None:
        assert verdict.decided_by == "platform"
        assert verdict.answer.runtime.startswith("LuaJIT")


def test_after_the_siege_a_good_policy_decides_again(besieged: PolicyHost) -> None:
    besieged.load("function schedule(context) return platform.schedule(context) end", "good")
    verdict = besieged.ask(QUESTION)
    assert (verdict.decided_by, verdict.failure) == ("user", None)
    assert verdict.actions
