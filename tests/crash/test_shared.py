"""Four processes on one file: one owns it, the others are its clients, and whoever is left goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headgate.bootstrap.engine import open_engine, start_engine
from headgate.core import commands as c
from headgate.core.settings import Settings
from headgate.engine.errors import EngineSilent, EngineUnreachable, SettingsIgnored
from headgate.engine.member import PATIENCE, PATIENCE_WITH_SERVERS, Member
from headgate.engine.questions import CountJobs, GetJob
from headgate.stores.sqlite import SqliteStore
from headgate.system import stopwatch
from headgate.testing import ManualClock
from tests.crash.at_rest import Told, check_at_rest
from tests.crash.child import SETTINGS, submission
from tests.crash.conftest import Process, Run


def joined(run: Run, path: Path, name: str) -> tuple[Process, str]:
    process = run("member", path, name)
    return process, process.line()


def joined_as(member: Member) -> str:
    return "owner" if member.owner else "client"


def hear_until(process: Process, enough: Callable[[list[str]], bool]) -> list[str]:
    """What a process says until that is enough."""
    lines: list[str] = []
    while not enough(lines):
        line = process.line()
        assert line, "it ended before it had said enough"
        lines.append(line)
    return lines


def completions(count: int) -> Callable[[list[str]], bool]:
    return lambda lines: sum(line.startswith("completed") for line in lines) >= count


def test_four_processes_share_a_database_and_its_owners_are_killed_one_after_the_other(run: Run, path: Path) -> None:
    members = {}
    for name in ("m0", "m1", "m2", "m3"):
        members[name], role = joined(run, path, name)
        assert role == ("joined owner" if name == "m0" else "joined client")
    told = Told()
    for process in members.values():
        process.tell("go")
    for process in members.values():
        told.take(hear_until(process, completions(3)))
    owner = "m0"
    while len(members) > 1:
        told.take(members.pop(owner).kill())
        heard = {name: hear_until(process, completions(5)) for name, process in members.items()}
        owners = [name for name, lines in heard.items() if f"owner {name}" in lines]
        for lines in heard.values():
            told.take(lines)
        if not owners:  # it has taken over, and says so when it next looks
            name, lines = next_owner(members)
            told.take(lines)
            owners = [name]
        assert len(owners) == 1
        (owner,) = owners
    told.take(members[owner].kill())
    jobs = check_at_rest(path, told)
    assert {str(view.job.key).partition(":")[0] for view in jobs} == {"m0", "m1", "m2", "m3"}
    store = SqliteStore(path)
    store.open()
    epochs = {row.epoch for row in store.journal()}
    store.close()
    assert len(epochs) == 4, "four owners, one after the other"


def next_owner(members: dict[str, Process]) -> tuple[str, list[str]]:
    """Who says that it owns the database, of those who go on talking."""
    lines: list[str] = []
    while True:
        for name, process in members.items():
            lines.append(process.line())
            if lines[-1] == f"owner {name}":
                return name, lines


def test_when_the_owner_leaves_a_client_in_another_process_takes_over(run: Run, path: Path) -> None:
    here = open_engine(str(path), SETTINGS)
    assert isinstance(here, Member)
    there, role = joined(run, path, "m1")
    assert (here.owner, role) == (True, "joined client")
    told = Told({"mine": here.do(submission("mine")).ids[0]})
    there.tell("go")
    told.take(hear_until(there, completions(2)))
    here.stop()
    lines = hear_until(there, lambda lines: "owner m1" in lines and completions(2)(lines))
    told.take(lines)
    back = open_engine(str(path), SETTINGS)
    assert isinstance(back, Member)
    assert joined_as(back) == "client"
    assert back.do(submission("mine")) == c.Submitted((told.submitted["mine"],), (False,))
    told.take(there.kill())
    assert sum(back.ask(CountJobs())["completed"].values()) >= len(told.completed)
    assert joined_as(back) == "owner"
    back.stop()
    check_at_rest(path, told)


def test_an_owner_that_stands_still_holds_nobody_up_for_ever_and_things_go_on_when_it_wakes(
    run: Run, path: Path
) -> None:
    owner, role = joined(run, path, "m0")
    assert role == "joined owner"
    here = open_engine(str(path), SETTINGS, patience=1_000)
    told = Told({"before": here.do(submission("before")).ids[0]})
    owner.freeze()
    with pytest.raises(EngineSilent, match=rf"process {owner.pid} owns headgate\.db and has not answered") as silent:
        here.do(submission("during"))
    assert "whether the command was carried out is unknown" in str(silent.value)
    assert silent.value.details["pid"] == owner.pid
    with pytest.raises(EngineSilent) as unanswered:
        here.ask(CountJobs())
    assert "unknown" not in str(unanswered.value)
    with pytest.raises(EngineSilent):
        here.wait_end(told.submitted["before"], 0.01)
    with pytest.raises(EngineSilent, match=f"process {owner.pid} owns"):
        open_engine(str(path), SETTINGS, patience=1_000)
    owner.thaw()
    patient = open_engine(str(path), SETTINGS)
    reply = patient.do(submission("during"))  # the same key: what was carried out late is not done twice
    told.submitted["during"] = reply.ids[0]
    assert here.ask(GetJob(reply.ids[0])).id == reply.ids[0]
    patient.stop()
    here.stop()
    told.take(owner.kill())
    assert sorted(str(view.job.key) for view in check_at_rest(path, told)) == ["before", "during"]


def test_a_client_that_gave_up_is_not_told_the_answer_to_its_last_question(run: Run, path: Path) -> None:
    owner, _ = joined(run, path, "m0")
    here = open_engine(str(path), SETTINGS, patience=1_000)
    owner.freeze()
    with pytest.raises(EngineSilent):
        here.ask(GetJob("nobody"))
    owner.thaw()
    late = open_engine(str(path), SETTINGS)
    late.ask(CountJobs())
    assert here.ask(CountJobs()) == {}
    late.stop()
    here.stop()
    owner.kill()


def test_settings_that_the_owner_does_not_go_by_are_named_in_a_warning(path: Path) -> None:
    owner = open_engine(str(path), SETTINGS)
    other = msgspec.structs.replace(SETTINGS, lease_ttl=5_000, stagger=7)
    with pytest.warns(SettingsIgnored, match=r"headgate\.db is owned by another process.*: lease_ttl, stagger$"):
        open_engine(str(path), other).stop()
    for agreeing in (None, SETTINGS, Settings()):
        open_engine(str(path), agreeing).stop()
    owner.stop()


def test_where_sharing_is_not_wanted_a_second_process_is_refused(run: Run, path: Path) -> None:
    here = open_engine(str(path), SETTINGS)
    refusal = run("refused", path).line()
    here.stop()
    assert refusal.startswith("StoreOwned ")
    assert "is owned by process" in refusal


def test_a_member_that_was_deposed_becomes_a_client_of_the_new_owner(path: Path) -> None:
    older, younger = (open_engine(str(path), SETTINGS), None)
    path.with_name(path.name + ".lock").unlink()
    path.with_name(path.name + ".sock").unlink()
    younger = open_engine(str(path), SETTINGS)
    assert isinstance(older, Member)
    assert isinstance(younger, Member)
    assert younger.owner
    told = Told({"first": younger.do(submission("first")).ids[0]})
    with pytest.raises(Exception, match="epoch"):
        older.do(submission("late"))
    told.submitted["second"] = older.do(submission("second")).ids[0]
    assert (older.owner, younger.owner) == (False, True)
    assert path.with_name(path.name + ".sock").exists()
    older.stop()
    younger.stop()
    assert [view.job.key for view in check_at_rest(path, told)] == ["first", "second"]


def test_who_opens_the_file_of_a_server_is_sent_to_its_address_at_once(path: Path) -> None:
    server = SqliteStore(path, server=True)
    server.open()
    clock = ManualClock()
    began = clock.now()
    member = Member(path, lambda: start_engine(SqliteStore(path)), clock, lambda _: clock.advance(100), stopwatch)
    with pytest.raises(EngineUnreachable, match=r"owned by process .*, a server: give its address, http://"):
        member.start()
    assert clock.now() - began <= PATIENCE_WITH_SERVERS < PATIENCE
    server.close()
    assert joined_as(member.start()) == "owner"
    member.stop()


def test_a_member_looks_for_an_owner_that_does_not_answer_only_so_long(path: Path) -> None:
    owner = SqliteStore(path)
    owner.open()
    ticks = iter(range(0, 1_000_000, 10_000))

    class Clock:
        def now(self) -> int:
            return next(ticks)

    def refuse() -> None:
        owner_without_socket = SqliteStore(path)
        owner_without_socket.open()

    member = Member(path, refuse, Clock(), lambda _: None, stopwatch)  # type: ignore[arg-type]
    with pytest.raises(EngineUnreachable, match=r"owned by process .* but nobody answers at headgate\.db\.sock"):
        member.start()
    owner.close()
