"""Commands made by hand, past every parser, and policies that raise: refused or survived, never half done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.core import commands as c
from headgate.core.actions import Action
from headgate.core.cluster import WorkerSpec
from headgate.core.errors import DuplicateJob, InvalidInput
from headgate.core.events import Failure
from headgate.core.job import JobKind, JobSpec
from headgate.core.settings import Settings
from headgate.core.state import State
from headgate.core.verify import verify
from headgate.engine.member import Member
from headgate.engine.questions import CountJobs, GetRecords
from headgate.engine.shared import SharedEngine
from headgate.engine.writer import Writer
from headgate.stores.memory import MemoryDisk, MemoryStore
from headgate.system import SystemClock, stopwatch
from headgate.testing import SeededChance, job, worker
from tests.engine.conftest import OPEN, MakeWriter

HUGE = 10**30
SURROGATE = "\ud800"


def kind(**fields: Any) -> c.Command[Any]:
    return c.Submit((c.NewJob("x", JobSpec(JobKind(**fields), "x")),))


@pytest.mark.parametrize(
    "command",
    [
        kind(units=-50),
        kind(units=2**63),
        kind(rank=HUGE),
        kind(priority="urgent"),
        kind(timeout=HUGE),
        kind(resources=(("memory", -1),)),
        c.Submit((c.NewJob(SURROGATE, job("x")),)),
        c.Submit((c.NewJob("", job("x")),)),
        c.Submit((c.NewJob("x", JobSpec(JobKind(), "x", not_before=HUGE)),)),
        c.Submit((c.NewJob("x", JobSpec(JobKind(), "x", payload=b"x" * (2 << 20))),)),
        c.Patch("held", rank=HUGE),
        c.Patch("held", not_before=HUGE),
        c.RegisterWorker(WorkerSpec("w", slots=1.5)),  # type: ignore[arg-type]
        c.RegisterWorker(WorkerSpec(SURROGATE)),
        c.PutDocument("policy", SURROGATE, b""),
    ],
    ids=str,
)
def test_what_could_not_be_kept_is_refused_and_the_engine_goes_on(
    make_writer: MakeWriter, command: c.Command[Any]
) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        engine.do(c.Submit((c.NewJob("held", job("held")),)))
        with pytest.raises(InvalidInput):
            engine.do(command)
        engine.do(c.Submit((c.NewJob("next", job("next")),)))
        engine.do(c.Cancel("next", SURROGATE))
        engine.read(verify)
        assert engine.problem is None


def test_a_result_that_is_not_json_and_a_failure_that_cannot_be_written_are_refused(make_writer: MakeWriter) -> None:
    with SharedEngine(make_writer(opened=False), SystemClock()) as engine:
        engine.do(c.RegisterWorker(worker("w")))
        engine.do(c.Submit((c.NewJob("a", job("a")),)))
        lease = engine.read(lambda state: state.jobs["a"].lease)
        assert lease is not None
        engine.do(c.Start(lease.id, lease.token))
        with pytest.raises(InvalidInput):
            engine.do(c.Complete(lease.id, lease.token, b"{bad"))
        with pytest.raises(InvalidInput):
            engine.do(c.Fail(lease.id, lease.token, Failure("x", SURROGATE)))
        engine.do(c.Complete(lease.id, lease.token, b"{}"))


class Raising:
    """A policy with a mistake in it."""

    def propose(self, state: State, now: int) -> list[Action]:
        raise RuntimeError("a mistake")


def test_a_policy_that_raises_starts_nothing_and_stops_nobody() -> None:
    writer = Writer(MemoryStore(), Raising(), SeededChance(1), OPEN)
    with SharedEngine(writer, SystemClock()) as engine:
        engine.do(c.RegisterWorker(worker("w")))
        for name in "abc":
            engine.do(c.Submit((c.NewJob(name, job(name)),)))
        assert writer.policy_problem == "RuntimeError: a mistake"
        assert engine.ask(CountJobs()) == {"queued": {"normal": 3}}


def test_a_repeat_is_only_called_done_if_every_job_of_it_is_there(make_writer: MakeWriter, tmp_path: Path) -> None:
    disk = MemoryDisk()

    def open_owner() -> SharedEngine:
        writer = make_writer(opened=False)
        writer.store = MemoryStore(disk)
        return SharedEngine(writer, SystemClock()).start()

    member = Member(tmp_path / "a.db", open_owner, SystemClock(), lambda _: None, stopwatch).start()
    member.do(c.Submit((c.NewJob("a", job("a")),)))
    face = member._joined()
    with pytest.raises(DuplicateJob):
        member._again(face, c.Submit((c.NewJob("a", job("a")), c.NewJob("b", job("b")))))
    with pytest.raises(DuplicateJob):
        member._again(face, c.Submit((c.NewJob("a", job("another")),)))
    assert member._again(face, c.Submit((c.NewJob("a", job("a")),))).created == (True,)
    member.stop()


def test_samples_of_load_are_kept_and_can_be_asked_for(make_writer: MakeWriter) -> None:
    settings = msgspec.structs.replace(Settings(), fixed_busy=None)
    with SharedEngine(make_writer(settings, opened=False), SystemClock()) as engine:
        engine.do(c.SampleLoad("host", {"cpu": 0.5}))
        engine.do(c.SampleLoad("host", {"cpu": 0.6}))
        engine.do(c.RegisterWorker(worker("w")))
        assert [row.key for row in engine.ask(GetRecords("load"))] == ["host"]
