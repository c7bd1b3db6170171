"""What the command line and editors may look at line by line: a recorded decision, a file, a simulated decision."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from headgate.bootstrap import simulating
from headgate.core.errors import InvalidInput
from headgate.policy.debugging import profiling, serving, tracing
from headgate.policy.debugging.subject import Context, Subject, of_context, of_file, of_state, read
from headgate.policy.decisions import Replayer
from headgate.policy.deltas import Question, encode
from headgate.policy.verdict import HostSettings
from headgate.sim.policies import source_of
from headgate.sim.recording import decision_of

Fetch = Callable[[str], dict[str, Any]]
"""The context of a recorded decision as the server tells it."""

ENDINGS = (".lua", ".yaml", ".yml")
profile, trace, readable = profiling.profile, tracing.trace, tracing.readable


class Looked(msgspec.Struct, frozen=True):
    """What to look at. A launch request of an editor names the same fields."""

    decision: str | None = None
    policy: str | None = None
    context: str | None = None
    workload: str | None = None
    number: int = 1
    jobs: int = 1_000
    seed: int = 0


def subject(asked: Looked, fetch: Fetch) -> Subject:
    """Find it; errors name the field that is wrong."""
    if asked.workload is not None:
        return _simulated(asked)
    if asked.decision is not None:
        found = of_context(_context(fetch(asked.decision)))
        return found if asked.policy is None else found.with_policy(read(Path(asked.policy)), asked.policy)
    if asked.policy is None:
        raise InvalidInput("name a decision, or a policy file", field="decision")
    return of_file(Path(asked.policy), asked.context or "sample")


def _context(told: dict[str, Any]) -> Context:
    names = Question.__struct_fields__
    question = Question(**{name: told["question"][name] for name in names})
    frames = [base64.b64decode(frame) for frame in told["frames"]]
    return Context(
        told["id"], told["version"], told["language"], told["source"], told["lua"], frames, question,
        told["actions"], told.get("failure", ""),
    )  # fmt: skip


def _simulated(asked: Looked) -> Subject:
    """The answer of an ordinary run on the very same state is what the look has to repeat."""
    policy = asked.policy or "platform"
    wanted = simulating.Asked(asked.workload or "", jobs=asked.jobs)
    workload, cluster = simulating.prepare(wanted, asked.seed)
    deltas, question = decision_of(workload, policy, cluster, asked.number, seed=asked.seed)
    lua = source_of(policy)
    found = of_state(deltas, question, Path(policy).stem, lua)
    if policy.endswith(ENDINGS):
        found = found.with_policy(read(Path(policy)), policy)
    with Replayer(lua, HostSettings(limit_ms=2_000)) as replayer:
        verdict = replayer.ask_on(deltas, question)
    recorded = None if verdict.failure else verdict.answer.actions
    return msgspec.structs.replace(found, recorded=recorded, told=encode(deltas))


def opener(asked: Looked, fetch: Fetch) -> Callable[[dict[str, Any]], Subject]:
    """What a launch request names, on top of what the command line named."""
    fields = set(Looked.__struct_fields__)

    def open_subject(arguments: dict[str, Any]) -> Subject:
        given = {name: value for name, value in arguments.items() if name in fields and value not in (None, "")}
        try:
            wanted = msgspec.convert({**msgspec.structs.asdict(asked), **given}, Looked)
        except msgspec.ValidationError as error:
            raise InvalidInput(str(error), field="launch") from error
        return subject(wanted, fetch)

    return open_subject


serve_port, serve_streams, ClientGone = serving.serve_port, serving.serve_streams, serving.ClientGone
plain: Callable[[object], Any] = msgspec.to_builtins
__all__ = [
    "ENDINGS",
    "ClientGone",
    "Fetch",
    "Looked",
    "opener",
    "plain",
    "profile",
    "readable",
    "serve_port",
    "serve_streams",
    "subject",
    "trace",
]
