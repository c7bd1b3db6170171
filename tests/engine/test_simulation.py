"""The deterministic simulation: many seeds hold, a seed repeats itself, and planted bugs do not get through."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.decide import jobs as job_rules
from headgate.core.decide import leases as lease_rules
from headgate.core.errors import StaleLease
from headgate.core.lease import Lease
from headgate.core.retention import Retention
from headgate.core.state import State
from headgate.core.states import TERMINAL
from headgate.engine import recovery, replay, rows
from headgate.engine.failpoints import FAILPOINTS
from headgate.engine.forgotten import Forgotten
from headgate.engine.index import HistoryIndex
from headgate.engine.writer import Group, Writer
from headgate.ports import CommitFailed, Gone, OldEnd, StatusRow
from headgate.testing.simulation import Faults, Report, simulate
from headgate.testing.simulation.__main__ import main
from headgate.testing.simulation.disk import SimStore

STEPS = 1_000
SEEDS, CHUNK = 500, 20
MANY, MANY_CHUNK = 3_000, 50


def failures(seeds: range, steps: int) -> list[str]:
    reports = (simulate(seed, steps) for seed in seeds)
    return [f"seed {report.seed}: {report.problem}" for report in reports if report.problem is not None]


@pytest.mark.parametrize("first", range(1, SEEDS, CHUNK))
def test_nothing_is_lost_run_twice_or_left_undone_whatever_goes_wrong(first: int) -> None:
    assert failures(range(first, first + CHUNK), STEPS) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 1_000 + MANY, MANY_CHUNK))
def test_the_same_holds_for_thousands_of_longer_runs(first: int) -> None:
    assert failures(range(first, first + MANY_CHUNK), 2_000) == []


def test_every_kind_of_fault_and_outcome_comes_up() -> None:
    seen: Counter[str] = Counter()
    for seed in range(1, 101):
        seen.update(simulate(seed, STEPS).seen)
    faults = {
        *(f"died at {name}" for name in FAILPOINTS),
        *("died between steps", "died replying", "engine froze", "clock jumped", "worker died", "worker froze"),
        *("open failed", "write failed", "seal failed", "seal unknown", "slow commit"),
        *("message lost", "message doubled", "message late"),
    }
    events = {
        event.__name__
        for event in e.EVENT_TYPES
        if event not in (e.WorkerWanted, e.WorkerEvicted, e.PolicyWaited, e.LoadWithdrawn)  # a policy's, or rare
    }
    errors = {"StaleLease", "OutcomeConflict", "IdempotencyConflict", "DuplicateJob", "CommitFailed", "WorkerBusy"}
    deleted = {f"deleted {what}" for what in Gone.__struct_fields__}
    assert {name for name in faults | events | errors | deleted if not seen[name]} == set()


# -- a seed repeats itself ----------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_report_again() -> None:
    assert simulate(11, STEPS) == simulate(11, STEPS)


@pytest.mark.parametrize("seed", [3, 4])
def test_a_seed_gives_the_same_trace_in_another_process_whatever_its_hashes(seed: int) -> None:
    def run(hashes: str) -> str:
        command = [sys.executable, "-m", "headgate.testing.simulation", "--seed", str(seed), "--verbose"]
        environment = {**os.environ, "PYTHONHASHSEED": hashes}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert run("1") == run("2")
    assert f"trace {simulate(seed).fingerprint})" in run("3")


# -- planted bugs -------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledge_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Writer, "when_durable", lambda _, done: done(None))


def refuse_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    honest = Writer.when_durable

    def when_durable(self: Writer, done: Callable[[Exception | None], None]) -> None:
        if done.__name__ == "<lambda>":  # a refusal
            done(None)
        else:
            honest(self, done)

    patch.setattr(Writer, "when_durable", when_durable)


def acknowledge_what_the_disk_refused(patch: pytest.MonkeyPatch) -> None:
    def seal(self: Writer, group: Group) -> None:
        try:
            self.store.seal()
        except CommitFailed:
            self.fail(Group(), CommitFailed("nobody who waited is told"))
        else:
            self.sealed(group)

    patch.setattr(Writer, "seal", seal)


def take_any_token(patch: pytest.MonkeyPatch) -> None:
    def live(state: State, lease_id: str, token: int) -> Lease:
        lease = state.leases.get(lease_id)
        if lease is None:
            raise StaleLease
        return lease

    patch.setattr(lease_rules, "live", live)


def let_a_late_holder_speak_for_the_new_one(patch: pytest.MonkeyPatch) -> None:
    granted: dict[tuple[str, int], str] = {}

    def live(state: State, lease_id: str, token: int) -> Lease:
        for lease in state.leases.values():
            granted[lease.id, lease.token] = lease.job_id
        job = state.jobs.get(granted.get((lease_id, token), ""))
        if job is None or job.lease is None:
            raise StaleLease
        return job.lease

    patch.setattr(lease_rules, "live", live)


def forget_resume(patch: pytest.MonkeyPatch) -> None:
    handlers = importlib.import_module("headgate.core.decide")._HANDLERS
    patch.setitem(handlers, c.Resume, lambda *_: None)


def count_a_restored_lease_from_its_grant(patch: pytest.MonkeyPatch) -> None:
    honest = recovery._lease

    def old(*arguments: Any) -> Lease:
        lease = honest(*arguments)
        lease.expires_at = lease.granted_at + lease.ttl
        return lease

    patch.setattr(recovery, "_lease", old)


def forget_keys_with_their_jobs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Forgotten, "recall", lambda _, command, __: command)


def forget_attempts_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    honest = recovery._standing

    def forgetful(spec: Any, row: StatusRow) -> Any:
        return msgspec.structs.replace(honest(spec, row), attempt=0)

    patch.setattr(recovery, "_standing", forgetful)


def leave_out_the_row_of_a_started_lease(patch: pytest.MonkeyPatch) -> None:
    honest = rows.lease_row
    patch.setattr(rows, "lease_row", lambda seq, lease: honest(seq, lease)._replace(started_at=None))


def journal_no_cancellations(patch: pytest.MonkeyPatch) -> None:
    honest = e.journal
    patch.setattr(e, "journal", lambda events: honest([x for x in events if type(x) is not e.JobCancelled]))


def expire_by_the_grant_alone(patch: pytest.MonkeyPatch) -> None:
    def renew(turn: Any, lease: Lease) -> c.Beat:
        turn.emit(e.LeaseRenewed(turn.now, lease.id, lease.expires_at))
        return c.Beat(lease.id, lease.expires_at)

    patch.setattr(lease_rules, "_renew", renew)


def delete_what_a_live_job_depends_on(patch: pytest.MonkeyPatch) -> None:
    def may_go(state: State, job_id: str) -> bool:
        job = state.jobs.get(job_id)
        return job is None or job.state in TERMINAL

    patch.setattr(job_rules, "_may_go", may_go)


def delete_without_a_word_to_the_core(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Writer, "_forget", lambda _, old: old)


def delete_keys_with_their_jobs(patch: pytest.MonkeyPatch) -> None:
    honest = Retention.age_of
    patch.setattr(Retention, "age_of", lambda self, **_: honest(self, keyed=False))


def delete_jobs_whose_history_is_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HistoryIndex, "told_before", lambda _: None)


def delete_a_little_early(patch: pytest.MonkeyPatch) -> None:
    honest = SimStore.old_ends

    def old_ends(self: SimStore, before: int, *place: Any) -> list[OldEnd]:
        return honest(self, before + 1_000, *place)

    patch.setattr(SimStore, "old_ends", old_ends)


def delete_the_journal_before_it_is_read(patch: pytest.MonkeyPatch) -> None:
    def old_entries(self: SimStore, before: int, limit: int = 1_000) -> list[int]:
        return [row.number for row in self.journal() if row.at < before][:limit]

    patch.setattr(SimStore, "old_entries", old_entries)


def replay_no_grants_of_deleted_jobs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "number_of", lambda _: 0)


UNSURE = Faults(doubled=0.5, seal_fails=0.1, slow_commits=0.3)
CUT_OFF = Faults(lost=0.2, late=0.1, worker_freezes=0.15, meddling=0.5)
AWAY = Faults(freezes=0.03, dies_between=0.03, clock_jumps=0.9)
PLANTED: list[tuple[Plant, Faults]] = [
    (acknowledge_before_the_commit, UNSURE),
    (refuse_before_the_commit, UNSURE),
    (acknowledge_what_the_disk_refused, UNSURE),
    (take_any_token, CUT_OFF),
    (let_a_late_holder_speak_for_the_new_one, CUT_OFF),
    (forget_resume, AWAY),
    (count_a_restored_lease_from_its_grant, AWAY),
    (forget_keys_with_their_jobs, CUT_OFF),
    (forget_attempts_at_a_restart, AWAY),
    (leave_out_the_row_of_a_started_lease, AWAY),
    (journal_no_cancellations, AWAY),
    (expire_by_the_grant_alone, CUT_OFF),
    (delete_what_a_live_job_depends_on, CUT_OFF),
    (delete_without_a_word_to_the_core, UNSURE),
    (delete_keys_with_their_jobs, CUT_OFF),
    (delete_jobs_whose_history_is_not_written, UNSURE),
    (delete_a_little_early, UNSURE),
    (delete_the_journal_before_it_is_read, UNSURE),
    (replay_no_grants_of_deleted_jobs, AWAY),
]
"""Bugs, each with the faults that bring it out."""


def first_failure(faults: Faults) -> Report | None:
    reports: Iterator[Report] = (simulate(seed, STEPS, faults) for seed in range(1, 31))
    return next((report for report in reports if report.problem is not None), None)


@pytest.mark.parametrize(("plant", "faults"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_bug_is_found_within_thirty_seeds(
    plant: Plant, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = first_failure(faults)
    assert found is not None
    assert simulate(found.seed, STEPS, faults) == found, "a failing seed fails again, step for step"


@pytest.mark.parametrize("faults", [UNSURE, CUT_OFF, AWAY], ids=["unsure", "cut off", "away"])
def test_without_the_planted_bug_the_same_seeds_hold(faults: Faults) -> None:
    assert first_failure(faults) is None


def test_a_failing_seed_is_printed_with_its_step_and_its_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_any_token(monkeypatch)
    assert main(["--seeds", "30", "--lines", "5"]) == 1
    told = capsys.readouterr().out
    assert "a token that is not the lease's own" in told
    assert "steps" in told
    assert told.rstrip().splitlines()[-1].startswith("failed: ")


def test_seeds_that_hold_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--steps", "300"]) == 0
    assert capsys.readouterr().out.endswith("all hold\n")
