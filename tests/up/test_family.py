"""Children are kept alive, later and later, and end with the family."""

import asyncio
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest

from headgate.app.processes import WorkerProcesses
from headgate.bootstrap import family
from headgate.bootstrap.family import GIVE_UP, Child, Ended, Restarts
from headgate.client.errors import WorkersFailed
from headgate.system import SystemClock
from tests.up.house import until


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def child(code: str, report: list[Ended], more: asyncio.Event | None = None) -> Child:
    def told(ended: Ended) -> None:
        report.append(ended)
        if more is not None:
            more.set()

    return Child("one", [sys.executable, "-c", code], dict(os.environ), told, SystemClock().now)


async def another(kept: Child, first: int) -> None:
    """Wait until it lives again."""
    await asyncio.to_thread(until, lambda: kept.pid not in (None, first))


@on_a_loop
async def test_one_that_keeps_ending_is_started_later_and_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "FIRST_PAUSE", 0.01)
    ended: list[Ended] = []
    more = asyncio.Event()
    kept = child("raise SystemExit(3)", ended, more)
    await kept.start()
    while len(ended) < 4:
        more.clear()
        await asyncio.wait_for(more.wait(), 30)
    await kept.stop(5)
    assert {each.how for each in ended} == {"exit code 3"}
    assert [each.again_in for each in ended][:4] == [0.01, 0.02, 0.04, 0.08]
    assert kept.pid is None


@on_a_loop
async def test_one_that_is_killed_is_started_again_as_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "FIRST_PAUSE", 0.01)
    ended: list[Ended] = []
    more = asyncio.Event()
    kept = child("import signal; signal.pause()", ended, more)
    await kept.start()
    first = kept.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await asyncio.wait_for(more.wait(), 30)
    await another(kept, first)
    await kept.stop(5)
    assert ended[0].how == "signal SIGKILL"
    assert kept.restarts == 1


@on_a_loop
async def test_one_that_does_not_listen_is_killed_with_what_it_started() -> None:
    code = "import signal, subprocess, sys; signal.signal(15, signal.SIG_IGN); subprocess.run(['sleep', '1000'])"
    kept = child(code, [])
    await kept.start()
    assert kept.pid is not None
    head = psutil.Process(kept.pid)
    below = await asyncio.to_thread(until, head.children)
    await kept.stop(0.1)
    _, alive = psutil.wait_procs([head, *below], timeout=10)
    assert alive == []


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    inner = "import os, sys, signal; from headgate.bootstrap.orphans import end_with; "
    inner += "print(os.getpid(), end_with(int(sys.argv[1])), flush=True); signal.pause()"
    outer = f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}, str(os.getpid())])"
    with subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, listening = parent.stdout.readline().split()
        orphan = psutil.Process(int(pid))
        assert listening == "True"
        parent.kill()
        _, alive = psutil.wait_procs([orphan], timeout=20)
    assert alive == []


def test_one_that_ends_at_once_again_and_again_is_given_up_and_one_that_is_killed_is_not() -> None:
    restarts, killed = Restarts(), Restarts()
    pauses = [restarts.after(1, 0.2) for _ in range(GIVE_UP)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses[-2:] == [family.LONGEST_PAUSE, None]
    assert None not in [killed.after(-signal.SIGKILL, 0.2) for _ in range(3 * GIVE_UP)]
    assert [killed.after(-signal.SIGKILL, 3.0) for _ in range(GIVE_UP)] == [family.FIRST_PAUSE] * GIVE_UP


def test_one_that_lives_for_a_while_begins_anew() -> None:
    restarts = Restarts()
    for _ in range(GIVE_UP - 1):
        restarts.after(1, 0.2)
    assert restarts.after(1, family.HEALTHY) == family.FIRST_PAUSE
    assert [restarts.after(1, 0.2) for _ in range(GIVE_UP)][-1] is None


@on_a_loop
async def test_one_that_is_given_up_says_so_and_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(family, "LONGEST_PAUSE", 0.001)
    monkeypatch.setattr(family, "GIVE_UP", 3)
    ended: list[Ended] = []
    more = asyncio.Event()
    kept = child("raise SystemExit(3)", ended, more)
    await kept.start()
    while not ended or ended[-1].again_in is not None:
        more.clear()
        await asyncio.wait_for(more.wait(), 30)
    assert (kept.given_up, kept.restarts, len(ended)) == (True, 2, 3)
    await kept.stop(5)


def test_worker_processes_of_an_app_that_cannot_work_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(family, "LONGEST_PAUSE", 0.001)
    monkeypatch.setattr(family, "GIVE_UP", 2)
    with pytest.raises(WorkersFailed):
        WorkerProcesses("no_such_module:app", "memory://", {}).start(2).serve()
