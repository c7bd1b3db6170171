"""Workers as real processes: killed, frozen, cancelled, preempted, drained."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from headgate.client.errors import JobExpired, JobFailed
from tests.worker.conftest import WITHIN, MakeSite, lines, until
from tests.worker.jobs_app import deaf, kills_its_worker, leaves, mark, whoami

TTL = 1_500


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_the_job_of_a_killed_worker_runs_again_after_its_lease_has_expired(make_site: MakeSite, quick: Path) -> None:
    site = make_site(lease_ttl=TTL)
    workers = site.workers(1)
    handle = site.app.submit(mark.options(retry={"attempts": 2, "initial": 0}).job(str(quick / "m"), 1, 2.0))
    begun = until(lambda: lines(quick / "m"))
    os.kill(workers.pids[0], signal.SIGKILL)
    assert handle.result(WITHIN) == 1
    told = lines(quick / "m")
    assert [line[0] for line in told] == ["begin", "begin", "end"]
    assert int(told[1][3]) - int(begun[0][3]) < TTL + 5_000
    assert handle.info().attempt == 2


def test_a_job_that_kills_its_worker_ends_at_its_last_attempt(make_site: MakeSite, quick: Path) -> None:
    site = make_site(lease_ttl=700)
    site.workers(1)
    job = kills_its_worker.options(retry={"attempts": 2, "initial": 0}).job(str(quick / "m"))
    handle = site.app.submit(job)
    with pytest.raises(JobExpired):
        handle.result(WITHIN)
    assert len(lines(quick / "m")) == 2


def test_a_frozen_worker_that_wakes_too_late_is_refused(make_site: MakeSite, quick: Path) -> None:
    site = make_site(lease_ttl=700, worker_silence=600)
    frozen = site.workers(1)
    handle = site.app.submit(deaf.options(retry={"attempts": 2, "initial": 0}).job(str(quick / "m"), 0.3))
    until(lambda: lines(quick / "m"))
    os.kill(frozen.pids[0], signal.SIGSTOP)
    site.workers(1)
    try:
        assert handle.result(WITHIN) == "late"
        info = handle.info()
    finally:
        os.kill(frozen.pids[0], signal.SIGCONT)
    assert info.attempt == 2
    until(lambda: len([line for line in lines(quick / "m") if line[0] == "end"]) == 2)
    assert handle.info() == info


@pytest.mark.parametrize("how", ["cancel", "kill the worker"])
def test_the_whole_process_group_of_a_command_ends_with_its_lease(make_site: MakeSite, quick: Path, how: str) -> None:
    site = make_site(lease_ttl=TTL)
    workers = site.workers(1, types=["generic"])
    script = (
        f"trap '' TERM; sleep 300 & echo $$ $! > {quick}/pids.new; mv {quick}/pids.new {quick}/pids; wait; sleep 300"
    )
    handle = site.app.submit(run={"kind": "command", "argv": ["sh", "-c", script]})
    until((quick / "pids").exists)
    pids = [int(word) for word in (quick / "pids").read_text().split()]
    if how == "cancel":
        handle.cancel()
    else:
        os.kill(workers.pids[0], signal.SIGKILL)
    until(lambda: all(gone(pid) for pid in pids))


def test_a_preempted_job_stops_and_runs_again_when_there_is_room(make_site: MakeSite, quick: Path) -> None:
    site = make_site(lease_ttl=TTL, total_units=10, preemption_grace=3_000)
    site.workers(1, slots=2)
    low = site.app.submit(mark.options(units=10, priority="low", checkpointable=True).job(str(quick / "low"), 1, 1.5))
    until(lambda: lines(quick / "low"))
    high = site.app.submit(mark.options(units=10, priority="high").job(str(quick / "high"), 2))
    assert high.result(WITHIN) == 2
    assert low.result(WITHIN) == 1
    assert [line[0] for line in lines(quick / "low")] == ["begin", "begin", "end"]
    assert low.info().attempt == 1


def test_a_worker_that_is_told_to_stop_finishes_what_it_has_begun(make_site: MakeSite, quick: Path) -> None:
    site = make_site()
    workers = site.workers(1, prefetch=4)
    handles = site.app.submit_many([mark.job(str(quick / "m"), number, 0.5) for number in range(3)])
    until(lambda: lines(quick / "m"))
    workers.stop()
    assert handles[0].state == "completed"
    assert [handle.state for handle in handles[1:]] == ["queued", "queued"]
    assert [handle.info().attempt for handle in handles[1:]] == [0, 0]
    assert site.app.status().workers == {}


def test_handlers_in_warm_processes_are_isolated_from_the_worker(make_site: MakeSite, quick: Path) -> None:
    site = make_site()
    workers = site.workers(1, isolation="process")
    first, second = site.app.submit(whoami.job()), site.app.submit(whoami.job())
    assert first.result(WITHIN)["pid"] == second.result(WITHIN)["pid"] != workers.pids[0]
    assert first.logs() == "said aloud\n"
    with pytest.raises(JobFailed, match="killed by SIGSEGV"):
        site.app.submit(leaves.job("signal")).result(WITHIN)
    with pytest.raises(JobFailed, match="exited with status 7"):
        site.app.submit(leaves.job("exit")).result(WITHIN)
    endless = site.app.submit(deaf.job(str(quick / "m"), 300))
    (line,) = until(lambda: lines(quick / "m"))
    endless.cancel()
    until(lambda: gone(int(line[2])))
    assert site.app.submit(whoami.job()).result(WITHIN)["attempt"] == 1
    assert not gone(workers.pids[0])


def test_a_command_is_held_to_the_memory_it_asked_for(make_site: MakeSite) -> None:
    site = make_site()
    site.workers(1, types=["generic"], resources={"memory": "1GB"})
    hog = ["python3", "-c", "x = bytearray(400 << 20); print(len(x))"]
    handle = site.app.submit(run={"kind": "command", "argv": hog}, resources={"memory": "100MB"})
    with pytest.raises(JobFailed):
        handle.result(WITHIN)
    free = site.app.submit(run={"kind": "command", "argv": hog}, resources={"memory": "900MB"})
    assert free.result(WITHIN) == {"exit_code": 0}
    assert free.logs() == f"{400 << 20}\n"
