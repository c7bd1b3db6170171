"""Retention, copies and checks."""

from __future__ import annotations

from headgate.ports import (
    Deposed,
    DocumentRow,
    EventRow,
    JobQuery,
    RecordRow,
    Retention,
    Store,
    StoreError,
    StoreUnavailable,
)
from headgate.testing.store_conformance.commits import everything, one_of_each
from headgate.testing.store_conformance.home import StoreHome, Writer, end_row, job_row, lease_row, status_row


def journal_numbers(store: Store) -> list[int]:
    """Which commits the journal still tells of."""
    return [row.number for row in store.journal()]


class UpkeepTests:
    """The part of the suite about upkeep."""

    def test_compact_without_ages_deletes_nothing(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(**one_of_each())
        before = everything(writer.store)
        assert writer.store.compact(10**12, Retention()) == (0, 0, 0)
        assert everything(writer.store) == before

    def test_compact_deletes_old_ended_jobs_with_their_results_and_events(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(
            jobs=[job_row(seq, key=f"key {seq}") for seq in (1, 2, 3)],
            ends=[end_row(1, ended_at=100), end_row(2, ended_at=200)],
            events=[EventRow(seq, number, 1, "x", b"") for seq in (1, 2, 3) for number in (1, 2)],
        )
        assert writer.store.compact(300, Retention(jobs=100)).jobs == 1
        store = writer.reopened(home).store
        assert [view.job.seq for view in store.find_jobs(JobQuery())] == [3, 2]
        assert store.get_job("job-000001") is None
        assert store.find_key("default", "key 1") is None
        assert store.events_of("job-000001") == []
        assert [ended.end.seq for ended in store.recent_ends(9)] == [2]
        assert [len(store.events_of(f"job-00000{seq}")) for seq in (2, 3)] == [2, 2]
        assert store.check() == []

    def test_compact_never_deletes_a_live_job(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        jobs = [job_row(seq, created_at=0) for seq in range(1, 5)]
        writer.commit(jobs=jobs, statuses=[status_row(2)], leases=[lease_row(3, granted_at=0)], ends=[end_row(4)])
        assert writer.store.compact(10**12, Retention(jobs=0)).jobs == 1
        assert [live.seq for live in writer.reopened(home).store.live_jobs()] == [1, 2, 3]

    def test_compact_deletes_many_jobs_at_once(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(
            jobs=[job_row(seq) for seq in range(1, 5_002)], ends=[end_row(seq, ended_at=1) for seq in range(1, 5_001)]
        )
        assert writer.store.compact(10, Retention(jobs=1)).jobs == 5_000
        assert [view.job.seq for view in writer.store.find_jobs(JobQuery())] == [5_001]

    def test_compact_deletes_only_what_of_the_journal_was_indexed(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        for at in (10, 20, 30, 40):
            writer.commit(journal=b"x", at=at)
        retention = Retention(journal=0)
        assert writer.store.compact(1_000, retention).journal == 0
        writer.commit(indexed=2, at=50)
        assert writer.store.compact(1_000, retention).journal == 2
        assert journal_numbers(writer.store) == [3, 4]
        writer.commit(indexed=5, at=60)
        assert writer.store.compact(65, Retention(journal=30)).journal == 1
        assert journal_numbers(writer.store) == [4]
        assert writer.reopened(home).mark.number == 6

    def test_compact_leaves_no_hole_in_the_journal_where_the_clock_went_back(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        for at in (10, 90, 20, 95):
            writer.commit(journal=b"x", at=at)
        writer.commit(indexed=4)
        assert writer.store.compact(100, Retention(journal=50)).journal == 1
        assert journal_numbers(writer.store) == [2, 3, 4]

    def test_the_mark_outlives_the_journal(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1)], journal=b"x", tokens=7)
        writer.commit(indexed=1, tokens=8, journal=b"y")
        writer.commit(indexed=2, tokens=9)
        assert writer.store.compact(10**12, Retention(journal=0)).journal == 2
        mark = writer.reopened(home).mark
        assert (mark.number, mark.seq, mark.tokens, mark.indexed) == (3, 1, 9, 2)

    def test_compact_deletes_old_records_by_kind(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        records = [RecordRow(kind, at, 1, "", b"") for kind in ("load", "audit", "decision") for at in (10, 20, 30)]
        writer.commit(records=records)
        assert writer.store.compact(40, Retention(records={"load": 20, "audit": 5})).records == 4
        left = {kind: [row.at for row in writer.store.records(kind)] for kind in ("load", "audit", "decision")}
        assert left == {"load": [20, 30], "audit": [], "decision": [10, 20, 30]}

    def test_only_the_owner_may_compact(self, home: StoreHome) -> None:
        owner = Writer(home.store())
        owner.commit(jobs=[job_row(1)], ends=[end_row(1)], records=[RecordRow("load", 1, 1, "", b"")], journal=b"x")
        owner.commit(indexed=1)
        before = everything(owner.store)
        for retention in (Retention(jobs=0), Retention(journal=0), Retention(records={"load": 0})):
            deposed, owner = owner, Writer(home.usurper())
            assert compact_is_refused(deposed.store, retention), retention
        assert everything(owner.store) == before

    def test_commits_go_on_after_compact(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1)], ends=[end_row(1)])
        writer.store.compact(10**12, Retention(jobs=0))
        writer.commit(jobs=[job_row(2)])
        assert [live.seq for live in writer.reopened(home).store.live_jobs()] == [2]

    def test_a_copy_holds_everything_that_was_sealed(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        target = home.backup_target()
        writer.commit(**one_of_each())
        if not home.backs_up:
            assert_refused(writer.store, target)
            return
        before = everything(writer.store)
        writer.store.backup(target)
        writer.commit(jobs=[job_row(9)], documents=[DocumentRow("pool", "late", b"")])
        copy = Writer(home.from_backup(target))
        assert everything(copy.store) == before
        assert copy.mark == writer.mark._replace(epoch=copy.mark.epoch, number=1, seq=4)
        assert copy.mark.epoch > writer.mark.epoch
        copy.store.close()

    def test_a_copy_never_overwrites_a_file(self, home: StoreHome) -> None:
        if not home.backs_up:
            return
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1)])
        target = home.backup_target()
        writer.store.backup(target)
        writer.commit(jobs=[job_row(2)])
        assert_refused(writer.store, target)
        copy = Writer(home.from_backup(target))
        assert [live.seq for live in copy.store.live_jobs()] == [1]
        copy.store.close()

    def test_a_sound_store_has_nothing_to_report(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        assert writer.store.check() == []
        writer.commit(**one_of_each())
        assert writer.store.check() == []

    def test_rows_that_contradict_each_other_are_reported(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1)], leases=[lease_row(1), lease_row(77)], ends=[end_row(1)])
        writer.commit(statuses=[status_row(88)])
        problems = writer.store.check()
        assert len(problems) == 3
        assert [number for number in ("77", "88", "ended") if not any(number in line for line in problems)] == []


def compact_is_refused(store: Store, retention: Retention) -> bool:
    """Whether a store refuses to tidy up: it is not the owner any more, or was cut off when it ceased to be."""
    try:
        store.compact(10**12, retention)
    except (Deposed, StoreUnavailable):
        return True
    return False


def assert_refused(store: Store, target: str) -> None:
    """A copy is refused with a clear error."""
    refused = ""
    try:
        store.backup(target)
    except StoreError as error:
        refused = str(error)
    assert target in refused
