"""A policy that is looked at has no more than one that decides: attacks on the sandbox fail here too."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.policy.debugging.child import parts
from headgate.policy.debugging.session import Session
from headgate.policy.debugging.subject import of_state
from headgate.policy.runtime import Runtime
from tests.policy.world import QUESTION, state

ATTACKS = sorted(
    path
    for kind in ("reach", "leak", "write")
    for path in (Path(__file__).parents[1] / "attacks").glob(f"{kind}_*.lua")
)


@pytest.mark.parametrize("script", ATTACKS, ids=lambda path: path.stem)
def test_nothing_is_reached_with_the_parts_of_the_debugger_loaded(script: Path, tmp_path: Path) -> None:
    runtime = Runtime(parts=parts())
    runtime.apply(state())
    runtime.load(script.read_bytes().replace(b"@CANARY@", str(tmp_path / "canary").encode()))
    assert "ESCAPED" not in repr(runtime.ask(QUESTION))
    assert not list(tmp_path.iterdir())


def test_a_policy_that_uses_up_its_memory_ends_its_own_process_alone() -> None:
    bomb = "function schedule(c) local t = {} for i = 1, 1e9 do t[i] = { i } end end"
    with Session(of_state(state(), QUESTION, "bomb", bomb), "tracing", heap_bytes=16 << 20) as session:
        session.ask()
        for _ in session.until_answer(30):
            pass
        assert session.answer is not None
        assert session.answer.error is not None
        assert session.answer.error.kind == "memory"


def test_the_parts_of_the_debugger_change_no_answer() -> None:
    source = "function schedule(c) return { action = 'wait', reason = tostring(math.random(1e6)) } end"
    answers = []
    for runtime in (Runtime(), Runtime(parts=parts())):
        runtime.apply(state())
        runtime.load(source)
        answers.append(runtime.ask(QUESTION).actions)
    assert answers[0] == answers[1]
