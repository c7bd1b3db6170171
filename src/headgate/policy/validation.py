"""Before a policy decides anything: syntax, semantics on generated contexts, speed. In a child that can be killed."""

from __future__ import annotations

import msgspec

from headgate.policy.contexts import context, crowd, question
from headgate.policy.deltas import Question, Reset
from headgate.policy.host import PolicyHost
from headgate.policy.rules import Diagnostic, PolicySourceError
from headgate.policy.runtime import PolicyRefused
from headgate.policy.sources import Prepared, prepare, refusal
from headgate.policy.verdict import FailureKind, HostSettings, Verdict

CONTEXTS = 1_000
JOBS = 10_000
ASKED = 200
MOST_PROBLEMS = 10
TRIES = 3
_PERHAPS_THE_MACHINE = (FailureKind.TIMEOUT, FailureKind.BUSY, FailureKind.DEATH)


class Validation(msgspec.Struct, frozen=True):
    """What the checks found. Without errors among the diagnostics the policy may be deployed."""

    prepared: Prepared | None
    diagnostics: tuple[Diagnostic, ...]
    contexts: int = 0
    p50_us: int = 0
    p99_us: int = 0
    limit_ms: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against it."""
        return all(note.severity != "error" for note in self.diagnostics)

    @property
    def lua(self) -> str:
        """The Lua that would run."""
        return self.prepared.lua if self.prepared is not None else ""


def validate(
    language: str,
    source: str,
    *,
    name: str | None = None,
    settings: HostSettings | None = None,
    contexts: int = CONTEXTS,
    jobs: int = JOBS,
    syntax_only: bool = False,
) -> Validation:
    """Check a policy in three parts; the first that fails ends it."""
    settings = settings or HostSettings()
    try:
        prepared = prepare(language, source, name)
    except PolicySourceError as error:
        return Validation(None, error.diagnostics)
    host = PolicyHost(settings)
    host.start()
    try:
        return _in_host(host, prepared, settings, 0 if syntax_only else contexts, jobs)
    finally:
        host.stop()


def _in_host(host: PolicyHost, prepared: Prepared, settings: HostSettings, contexts: int, jobs: int) -> Validation:
    try:
        host.load(prepared.lua, prepared.id)
    except PolicyRefused as refused:
        return Validation(prepared, (*prepared.warnings, refusal(refused)))
    if not contexts:
        return Validation(prepared, prepared.warnings)
    problems, tried = _semantics(host, contexts)
    if problems:
        return Validation(prepared, (*prepared.warnings, *problems), tried)
    times, slow = _speed(host, jobs, settings.limit_ms)
    p50, p99 = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
    return Validation(prepared, (*prepared.warnings, *slow), tried, p50, p99, settings.limit_ms)


def _semantics(host: PolicyHost, contexts: int) -> tuple[list[Diagnostic], int]:
    problems: list[Diagnostic] = []
    for seed in range(contexts):
        host.feed([Reset(), *context(seed)])
        verdict = _patiently(host, question(seed))
        if verdict.failure is not None:
            problems.append(_problem(verdict, seed))
            if len(problems) >= MOST_PROBLEMS:
                return problems, seed + 1
    return problems, contexts


def _patiently(host: PolicyHost, asked: Question) -> Verdict:
    """Ask again where the machine may be to blame: a policy that hangs does so every time."""
    tries = TRIES
    while True:
        host.wait_ready()
        verdict = host.ask(asked)
        tries -= 1
        if not tries or verdict.failure not in _PERHAPS_THE_MACHINE:
            return verdict


def _problem(verdict: Verdict, seed: int) -> Diagnostic:
    line = 1
    for part in (verdict.message, verdict.traceback):
        place = part.partition("policy:")[2].partition(":")[0]
        if place.isdigit():
            line = int(place)
            break
    return Diagnostic(f"semantics-{verdict.failure}", f"on generated context {seed}: {verdict.message}", line, 1)


def _speed(host: PolicyHost, jobs: int, limit_ms: int) -> tuple[list[int], list[Diagnostic]]:
    host.feed([Reset(), *crowd(jobs)])
    _patiently(host, question(0, max_answers=1))  # reading the crowd is not the policy's work
    times: list[int] = []
    for seed in range(ASKED):
        verdict = _patiently(host, question(seed, max_answers=1))
        if verdict.failure is not None:
            note = Diagnostic("speed", f"with {jobs} jobs: {verdict.message}", 1, 1)
            return [limit_ms * 1_000], [note]
        times.append(verdict.answer.took_us)
    times.sort()
    p99 = times[len(times) * 99 // 100]
    if p99 > limit_ms * 1_000:
        text = f"99 % of decisions over {jobs} jobs take up to {p99 / 1000:.1f} ms, {limit_ms} ms are allowed"
        return times, [Diagnostic("speed", text, 1, 1)]
    return times, []
