"""Property tests for policy authors: try a policy on generated contexts, get the smallest one it fails on, in words.

    from headgate.testing import SAFETY, check_policy

    def test_my_policy() -> None:
        check_policy(Path("policy.lua").read_text(), *SAFETY)

The policy runs as in production: in a locked-down child that is killed at its limit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from headgate.policy.deltas import Question
from headgate.policy.host import PolicyHost
from headgate.policy.sources import prepare
from headgate.policy.verdict import FailureKind, HostSettings, Verdict
from headgate.testing.scenes import Scene, contexts, strategies
from headgate.testing.trial import Trial, tell

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Invariant = Callable[[Trial], Iterable[str] | str | bool | None]
"""Yields or returns complaints, returns False, or asserts; whatever else it returns means that it holds."""

ANSWERS = "always gives an answer that the engine accepts"
_PERHAPS_THE_MACHINE = (FailureKind.TIMEOUT, FailureKind.BUSY, FailureKind.DEATH)
_TRIES = 3


def check_policy(
    source: str,
    *invariants: Invariant,
    language: str = "lua",
    examples: int = 200,
    seed: int = 0,
    limit_ms: int = 50,
    scenes: SearchStrategy[Scene] | None = None,
) -> None:
    """Try a policy on generated contexts; `AssertionError` tells the smallest one on which an invariant fails.

    That the policy answers at all, and validly, is always checked. The same seed tries the same contexts. A source that
    does not load raises `PolicySourceError` or `PolicyRefused`, as it would when deployed.
    """
    strategies()
    prepared = prepare(language, source)
    host = PolicyHost(HostSettings(limit_ms=limit_ms))
    host.start()
    try:
        host.load(prepared.lua, prepared.id)
        search = _Search(host, invariants)
        found = search.smallest(contexts() if scenes is None else scenes, examples, seed)
        if found is not None:
            raise AssertionError(search.report(found, seed))
    finally:
        host.stop()


class _Search:
    """Looks for a scene that breaks an invariant. Once one is broken only that one counts: shrinking keeps to it."""

    def __init__(self, host: PolicyHost, invariants: tuple[Invariant, ...]) -> None:
        self._host = host
        self._invariants = {_sentence(invariant): invariant for invariant in invariants}
        self._broken: str | None = None
        self._seen: dict[bytes, Verdict] = {}

    def smallest(self, scenes: Any, examples: int, seed: int) -> Scene | None:
        """The plainest scene that breaks an invariant."""
        from hypothesis import find, settings  # noqa: PLC0415 - optional
        from hypothesis.errors import NoSuchExample  # noqa: PLC0415

        limits = settings(max_examples=examples, deadline=None, database=None)
        try:
            found: Scene = find(scenes, self._breaks, settings=limits, random=random.Random(seed))
        except NoSuchExample:
            return None
        return found

    def report(self, scene: Scene, seed: int) -> str:
        """What is wrong, on which scene, and what the policy said."""
        trial = self._try(scene)
        complaint = next((text for name, text in self._complaints(trial) if name == self._broken), "")
        head = f"the policy breaks {self._broken!r} (found with seed {seed}):"
        return f"{head}\n{complaint}\n\n{tell(trial)}"

    def _breaks(self, scene: Scene) -> bool:
        for name, _ in self._complaints(self._try(scene)):
            if self._broken in (None, name):
                self._broken = name
                return True
        return False

    def _complaints(self, trial: Trial) -> Iterable[tuple[str, str]]:
        for name, invariant in self._invariants.items():
            for text in _complaints_of(invariant, trial):
                yield name, text
        if trial.verdict.failure is not None:
            yield ANSWERS, f"{trial.verdict.failure}: {trial.verdict.message}"

    def _try(self, scene: Scene) -> Trial:
        """Shrinking comes to the same scene by many ways; asking about it once is enough."""
        key = msgspec.msgpack.encode(scene)
        if key not in self._seen:
            self._host.feed(scene.deltas())
            self._seen[key] = self._patiently(scene.question())
        return Trial(scene, self._seen[key], self._host.settings.limit_ms)

    def _patiently(self, question: Question) -> Verdict:
        """Ask again where the machine may be to blame: a policy that hangs does so every time."""
        tries = _TRIES if self._broken is None else 2
        while True:
            self._host.wait_ready()
            verdict, tries = self._host.ask(question), tries - 1
            if not tries or verdict.failure not in _PERHAPS_THE_MACHINE:
                return verdict


def _sentence(invariant: Invariant) -> str:
    name: str = getattr(invariant, "__name__", repr(invariant))
    return name.replace("_", " ")


def _complaints_of(invariant: Invariant, trial: Trial) -> list[str]:
    try:
        said = invariant(trial)
        if said is False:
            return ["it does not hold"]
        if said is None or said is True:
            return []
        return [said] if isinstance(said, str) else list(said)
    except AssertionError as failed:
        return [str(failed) or "it does not hold"]
