"""The host and its child as processes: decisions in bounded time, whatever dies."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Iterator

import msgspec
import pytest

from headgate.policy.answers import Dispatch
from headgate.policy.deltas import JobAdded, JobRemoved, Question, WorkerSet
from headgate.policy.host import HostUnavailable, PolicyHost
from headgate.policy.runtime import PolicyRefused
from headgate.policy.verdict import FailureKind, HostSettings, Verdict
from tests.policy.world import NOW, QUESTION, job, state, worker
from tests.turns import turns

PLATFORM_BY_HAND = "function schedule(c) return platform.schedule(c) end"
WAIT = "function schedule(c) return { action = 'wait', reason = 'mine' } end"
HANG = "function schedule(c) while true do end end"


def wait_for_end(pid: int) -> bool:
    """Until the process has ended, without sleeping: its pidfd becomes readable then."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([fd], [], [], 10)
    os.close(fd)
    return bool(ended)


def child_pid(host: PolicyHost) -> int:
    pid = host.pids()[1]
    assert pid is not None
    return pid


def host_pid(host: PolicyHost) -> int:
    pid = host.pids()[0]
    assert pid is not None
    return pid


def drop_child(host: PolicyHost) -> None:
    assert host._seat is not None
    host._seat.drop()


def test_without_a_policy_the_platform_decides(host: PolicyHost) -> None:
    host.unload()
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.failure) == ("platform", None)
    assert Dispatch("job-2", "w-3") in verdict.actions


def test_a_loaded_policy_decides(host: PolicyHost) -> None:
    host.load(WAIT, "v1")
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.version, verdict.failure) == ("user", "v1", None)
    assert verdict.answer.actions == [{"action": "wait", "reason": "mine"}]


def test_a_hung_policy_is_killed_and_the_platform_decides(host: PolicyHost) -> None:
    host.load(HANG, "v2")
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.failure) == ("platform", FailureKind.TIMEOUT)
    assert verdict.actions
    assert verdict.waited_us >= 50_000


def test_a_killed_child_is_forked_anew_with_the_same_policy(host: PolicyHost) -> None:
    host.load(WAIT, "v3")
    first = child_pid(host)
    os.kill(first, signal.SIGKILL)
    wait_for_end(first)
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.failure) == ("platform", FailureKind.DEATH)
    assert host.wait_ready()
    assert host.ask(QUESTION).decided_by == "user"
    assert child_pid(host) != first


def test_before_the_new_child_is_ready_the_platform_decides(host: PolicyHost) -> None:
    host.load(HANG, "v4")
    host.ask(QUESTION)
    drop_child(host)
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.failure) == ("platform", FailureKind.BUSY)
    host.wait_ready()


def test_a_memory_bomb_stays_in_its_child() -> None:
    settings = HostSettings(heap_bytes=16 << 20, limit_ms=5_000)
    host = PolicyHost(settings, resync=state)
    host.start()
    host.load("function schedule(c) local t = {} for i = 1, 1e9 do t[i] = { i } end end", "bomb")
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.failure) == ("platform", FailureKind.MEMORY)
    host.stop()


def test_an_error_carries_the_lua_traceback_and_the_child_lives_on(host: PolicyHost) -> None:
    host.load("function schedule(c)\n  error('boo')\nend", "v5")
    child = child_pid(host)
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.failure, verdict.message) == ("platform", FailureKind.ERROR, "policy:2: boo")
    assert "policy:2" in verdict.traceback
    assert child_pid(host) == child


def test_an_invalid_answer_is_kept_for_the_dump(host: PolicyHost) -> None:
    host.load("function schedule(c) return { action = 'dispatch', job_id = 'ghost', worker_id = 'w-1' } end", "v6")
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.failure) == ("platform", FailureKind.INVALID)
    assert verdict.refused is not None
    assert verdict.refused.actions[0]["job_id"] == "ghost"


def test_a_refused_policy_leaves_the_last_good_one_in_charge(host: PolicyHost) -> None:
    host.load(WAIT, "good")
    for source, kind in (
        (HANG.replace("function schedule(c) ", "").replace(" end end", " end"), "timeout"),
        ("x =", "syntax"),
    ):
        with pytest.raises(PolicyRefused) as caught:
            host.load(source, "bad")
        assert caught.value.kind == kind
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.version) == ("user", "good")


LIST_IDS = """
function schedule(c)
  local ids = {}
  for _, j in ipairs(c.queue) do ids[#ids + 1] = j.id end
  return { action = "wait", reason = table.concat(ids, " ") }
end"""


def seen(verdict: Verdict) -> object:
    return verdict.answer.actions[0]["reason"]


@pytest.fixture
def fresh() -> Iterator[PolicyHost]:
    # On a busy machine even the platform policy may be late; the tests that are about that say so.
    host = PolicyHost(HostSettings(platform_limit_ms=5_000), resync=state)
    host.start()
    yield host
    host.stop()


def test_deltas_reach_child_and_host_alike_also_around_a_fork(fresh: PolicyHost) -> None:
    fresh.load(LIST_IDS, "v1")
    fresh.feed([job(5, 1)])
    assert seen(fresh.ask(QUESTION)) == "job-2 job-1 job-5 job-3"
    drop_child(fresh)
    fresh.feed([JobRemoved("job-1")])
    fresh.ask(QUESTION)
    fresh.feed([job(6, 1)])  # told while the new child is on its way
    assert fresh.wait_ready()
    assert seen(fresh.ask(QUESTION)) == "job-2 job-5 job-6 job-3"


def test_a_dead_host_is_started_again_and_told_everything(fresh: PolicyHost) -> None:
    fresh.load(LIST_IDS, "v1")
    fresh._resync = lambda: [*state(), job(7, 0)]
    pid = host_pid(fresh)
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)
    verdict = fresh.ask(QUESTION)
    assert verdict.decided_by == "platform"
    assert fresh.wait_ready()
    assert seen(fresh.ask(QUESTION)) == "job-2 job-7 job-1 job-3"
    assert fresh.status().host_starts == 2


def test_when_the_host_dies_its_child_dies_too(fresh: PolicyHost) -> None:
    fresh.load(WAIT, "v1")
    child = child_pid(fresh)
    os.kill(host_pid(fresh), signal.SIGKILL)
    assert wait_for_end(child)


def test_a_big_change_is_not_blamed_on_the_policy(fresh: PolicyHost) -> None:
    fresh.load("function schedule(c) return { action = 'wait', reason = tostring(#c.queue) } end", "v1")
    fresh.feed([JobAdded(f"bulk-{n}", 1, 0, 100 + n) for n in range(30_000)])
    verdict = fresh.ask(QUESTION)
    while verdict.failure is FailureKind.BUSY:
        fresh.wait_ready()
        verdict = fresh.ask(QUESTION)
    assert (verdict.failure, seen(verdict)) == (None, "30003")


def test_feeding_never_waits_even_if_the_child_is_stopped(fresh: PolicyHost) -> None:
    fresh.load(WAIT, "v1")
    os.kill(child_pid(fresh), signal.SIGSTOP)
    fresh.feed([JobAdded(f"bulk-{n}", 1, 0, 100 + n, labels={"x": "y" * 300}) for n in range(20_000)])
    verdict = fresh.ask(QUESTION)
    assert verdict.decided_by == "platform"
    assert verdict.failure in (FailureKind.BUSY, FailureKind.TIMEOUT)
    assert verdict.actions


def test_the_async_twin_leaves_the_loop_free_and_takes_deltas_meanwhile(fresh: PolicyHost) -> None:
    async def main() -> tuple[Verdict, int]:
        await fresh.aload(HANG, "v1")
        ticks = 0
        asked = asyncio.create_task(fresh.aask(QUESTION))
        while not asked.done():
            ticks += 1
            if ticks == 2:
                fresh.feed([JobRemoved("job-1")])
            await turns()
        return await asked, ticks

    verdict, ticks = asyncio.run(main())
    assert (verdict.decided_by, verdict.failure) == ("platform", FailureKind.TIMEOUT)
    assert ticks > 5


def test_one_question_at_a_time(fresh: PolicyHost) -> None:
    async def main() -> None:
        await fresh.aload(HANG, "v1")
        asked = asyncio.create_task(fresh.aask(QUESTION))
        await turns()
        with pytest.raises(RuntimeError, match="one question at a time"):
            await fresh.aask(QUESTION)
        await asked

    asyncio.run(main())


def test_the_same_question_in_two_processes_gives_the_same_bytes() -> None:
    source = """
    function schedule(c)
      local t = {}
      for k, v in pairs(c.queue[1] or {}) do t[#t + 1] = tostring(k) .. tostring(v) end
      log.info(table.concat(t, ","), math.random())
      return platform.schedule(c)
    end"""
    answers = []
    for _ in range(2):
        host = PolicyHost(HostSettings(), resync=state)
        host.start()
        host.load(source, "v1")
        for seed in range(20):
            answer = host.ask(Question(NOW + seed, seed)).answer
            answers.append(msgspec.msgpack.encode(msgspec.structs.replace(answer, took_us=0)))
        host.stop()
    assert answers[:20] == answers[20:]
    assert len(set(answers[:20])) > 1


def test_without_a_fork_server_the_same_holds_only_slower() -> None:
    host = PolicyHost(HostSettings(portable=True), resync=state)
    host.start()
    host.load(LIST_IDS, "v1")
    assert host.status().isolation == "portable"
    assert any(reason.startswith("isolation") for reason in host.status().degraded)
    host.feed([job(5, 1)])
    assert seen(host.ask(QUESTION)) == "job-2 job-1 job-5 job-3"
    host.load(HANG, "v2")
    verdict = host.ask(QUESTION)
    assert (verdict.decided_by, verdict.failure) == ("platform", FailureKind.TIMEOUT)
    host.stop()


def test_in_platform_mode_user_code_does_not_run_without_seccomp() -> None:
    host = PolicyHost(HostSettings(mode="platform", lockdown=False), resync=state)
    host.start()
    with pytest.raises(PolicyRefused) as caught:
        host.load(WAIT, "v1")
    assert caught.value.kind == "isolation"
    assert host.ask(QUESTION).decided_by == "platform"
    host.stop()


def test_the_status_says_what_was_taken_away(host: PolicyHost) -> None:
    host.load(PLATFORM_BY_HAND, "v9")
    status = host.status()
    assert (status.host_alive, status.child_ready, status.isolation) == (True, True, "forked")
    assert status.policy_version == "v9"
    lockdown = status.lockdown
    assert lockdown is not None
    assert lockdown.rlimits
    assert lockdown.no_new_privs
    assert lockdown.unprivileged
    for wall in ("seccomp", "landlock"):
        assert getattr(lockdown, wall) or wall in lockdown.reasons


def test_a_host_that_was_not_started_says_so() -> None:
    with pytest.raises(HostUnavailable):
        PolicyHost().ask(QUESTION)


def test_a_worker_record_replaces_the_one_before(fresh: PolicyHost) -> None:
    fresh.load("function schedule(c) return { action = 'wait', reason = c.workers[1].status .. #c.workers } end", "v1")
    fresh.feed([worker("w-1", status="draining", slots_free=0)])
    assert seen(fresh.ask(QUESTION)) == "draining3"
    assert isinstance(worker("x"), WorkerSet)


def test_a_cancelled_question_is_not_answered_to_the_next_one(fresh: PolicyHost) -> None:
    async def main() -> tuple[Verdict, Verdict]:
        asked = asyncio.create_task(fresh.aask(Question(NOW, max_answers=1)))
        await turns()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        second = await fresh.aask(Question(NOW, max_answers=3))
        await fresh.aload(LIST_IDS, "v1")
        asked = asyncio.create_task(fresh.aask(QUESTION))
        await turns()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        fresh.feed([JobRemoved("job-1")])
        await fresh.aask(QUESTION)
        fresh.wait_ready()
        return second, await fresh.aask(QUESTION)

    second, last = asyncio.run(main())
    assert len(second.actions) == 3
    assert seen(last) == "job-2 job-3"
