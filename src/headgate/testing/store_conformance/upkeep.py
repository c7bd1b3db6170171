"""Retention, copies and checks."""

from __future__ import annotations

from headgate.core.retention import Retention
from headgate.engine.compacting import counted, sweep
from headgate.ports import (
    Compacted,
    DocumentRow,
    EventRow,
    Gone,
    JobQuery,
    RecordRow,
    Store,
    StoreError,
)
from headgate.testing.store_conformance.commits import everything, is_deposed, one_of_each
from headgate.testing.store_conformance.home import StoreHome, Writer, end_row, job_row, lease_row, status_row


def journal_numbers(store: Store) -> list[int]:
    """Which commits the journal still tells of."""
    return [row.number for row in store.journal()]


def compact(writer: Writer, now: int, retention: Retention, most: int = 100) -> Compacted:
    """Delete what is too old, as an engine without any live job would."""
    total = Compacted()
    for gone in sweep(writer.store, retention, now, lambda old: old, most=most):
        writer.commit(gone=gone)
        total = counted(total, gone)
    return total


class UpkeepTests:
    """The part of the suite about upkeep."""

    def test_compact_without_ages_deletes_nothing(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(**one_of_each())
        before = everything(writer.store)
        assert compact(writer, 10**12, Retention()) == Compacted()
        assert everything(writer.store) == before

    def test_compact_deletes_old_ended_jobs_with_their_results_and_events(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(
            jobs=[job_row(seq, key=f"key {seq}") for seq in (1, 2, 3)],
            ends=[end_row(1, ended_at=100), end_row(2, ended_at=200)],
            events=[EventRow(seq, number, 1, "x", b"") for seq in (1, 2, 3) for number in (1, 2)],
        )
        assert compact(writer, 300, Retention(jobs=100, keys=0)).jobs == 1
        store = writer.reopened(home).store
        assert [view.job.seq for view in store.find_jobs(JobQuery())] == [3, 2]
        assert store.get_job("job-000001") is None
        assert store.find_keys([("default", "key 1")]) == {}
        assert store.events_of("job-000001") == []
        assert [ended.end.seq for ended in store.recent_ends(9)] == [2]
        assert [len(store.events_of(f"job-00000{seq}")) for seq in (2, 3)] == [2, 2]
        assert store.check() == []

    def test_compact_never_deletes_a_live_job(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        jobs = [job_row(seq, created_at=0) for seq in range(1, 5)]
        writer.commit(jobs=jobs, statuses=[status_row(2)], leases=[lease_row(3, granted_at=0)], ends=[end_row(4)])
        assert compact(writer, 10**12, Retention(jobs=0)).jobs == 1
        assert [live.seq for live in writer.reopened(home).store.live_jobs()] == [1, 2, 3]

    def test_compact_deletes_many_jobs_at_once(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(
            jobs=[job_row(seq) for seq in range(1, 5_002)], ends=[end_row(seq, ended_at=1) for seq in range(1, 5_001)]
        )
        assert compact(writer, 10, Retention(jobs=1)).jobs == 5_000
        assert [view.job.seq for view in writer.store.find_jobs(JobQuery())] == [5_001]

    def test_compact_deletes_only_what_of_the_journal_was_indexed(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        for at in (10, 20, 30, 40):
            writer.commit(journal=b"x", at=at)
        retention = Retention(events=0)
        assert compact(writer, 1_000, retention).journal == 0
        writer.commit(indexed=2, at=50)
        assert compact(writer, 1_000, retention).journal == 2
        assert journal_numbers(writer.store) == [3, 4]
        writer.commit(indexed=5, at=60)
        assert compact(writer, 65, Retention(events=30)).journal == 1
        assert journal_numbers(writer.store) == [4]
        assert writer.reopened(home).mark[1:] == writer.mark[1:]

    def test_compact_leaves_no_hole_in_the_journal_where_the_clock_went_back(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        for at in (10, 90, 20, 95):
            writer.commit(journal=b"x", at=at)
        writer.commit(indexed=4)
        assert compact(writer, 100, Retention(events=50)).journal == 1
        assert journal_numbers(writer.store) == [2, 3, 4]

    def test_the_mark_outlives_the_journal(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1)], journal=b"x", tokens=7)
        writer.commit(indexed=1, tokens=8, journal=b"y")
        writer.commit(indexed=2, tokens=9)
        assert compact(writer, 10**12, Retention(events=0)).journal == 2
        mark = writer.reopened(home).mark
        assert (mark.number, mark.seq, mark.indexed) == (4, 1, 2)

    def test_compact_deletes_old_records_by_kind(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        records = [RecordRow(kind, at, 1, "", b"") for kind in ("load", "audit", "decision") for at in (10, 20, 30)]
        writer.commit(records=records)
        assert compact(writer, 40, Retention(load=20, audit=5)).records == 4
        left = {kind: [row.at for row in writer.store.records(kind)] for kind in ("load", "audit", "decision")}
        assert left == {"load": [20, 30], "audit": [], "decision": [10, 20, 30]}

    def test_only_the_owner_may_compact(self, home: StoreHome) -> None:
        owner = Writer(home.store())
        owner.commit(jobs=[job_row(1)], ends=[end_row(1)], records=[RecordRow("load", 1, 1, "", b"")], journal=b"x")
        owner.commit(indexed=1)
        before = everything(owner.store)
        for gone in (Gone(jobs=[1]), Gone(journal=[1]), Gone(records=[("load", 1, 1)])):
            deposed, owner = owner, Writer(home.usurper())
            assert is_deposed(deposed, gone=gone), gone
        assert everything(owner.store) == before

    def test_what_was_to_be_deleted_and_not_sealed_is_there_after_a_crash(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(**one_of_each())
        before = everything(writer.store)
        gone = Gone(jobs=[1, 4], histories=[1], journal=[1], records=[("load", 7, 1)])
        writer.store.write(writer.batch(gone=gone))
        home.crash(writer.store)
        again = Writer(home.store())
        assert everything(again.store) == before
        again.commit(gone=gone)
        assert [view.job.seq for view in again.store.find_jobs(JobQuery())] == [3, 2]
        assert (journal_numbers(again.store), again.store.records("load")) == ([], [])
        assert again.store.check() == []

    def test_deleting_twice_or_what_is_not_there_is_the_same_as_once(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1), job_row(2)], ends=[end_row(1)])
        for _ in range(2):
            writer.commit(gone=Gone(jobs=[1, 99], histories=[1, 99], journal=[98, 99], records=[("load", 1, 1)]))
        assert [view.job.seq for view in writer.store.find_jobs(JobQuery())] == [2]

    def test_old_ends_come_oldest_first_and_in_pages(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        ended = {1: 50, 2: 10, 3: 40, 4: 40, 5: 40, 6: 90}
        writer.commit(
            jobs=[job_row(seq, key="k" if seq == 3 else None) for seq in range(1, 8)],
            ends=[end_row(seq, ended_at=at) for seq, at in ended.items()],
            events=[EventRow(4, 1, 1, "x", b"")],
        )
        store = writer.store
        assert [end.seq for end in store.old_ends(90)] == [2, 3, 4, 5, 1]
        assert [end.seq for end in store.old_ends(90, after=(40, 3), limit=2)] == [4, 5]
        assert [(end.ended_at, end.id, end.keyed, end.history) for end in store.old_ends(90, (10, 2), 2)] == [
            (40, "job-000003", True, False),
            (40, "job-000004", False, True),
        ]
        assert store.old_ends(10) == []

    def test_histories_go_before_their_jobs_and_keyed_jobs_stay_until_their_keys_are_old(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(
            jobs=[job_row(1), job_row(2, key="k"), job_row(3)],
            ends=[end_row(seq, ended_at=10 * seq) for seq in (1, 2, 3)],
            events=[EventRow(seq, 1, 1, "x", b"") for seq in (1, 2, 3)],
        )
        gone = compact(writer, 100, Retention(jobs=75, keys=85, events=75))
        assert gone[:2] == (1, 1)  # job 1 goes, job 2 is kept by its key and loses its history
        assert [view.job.seq for view in writer.store.find_jobs(JobQuery())] == [3, 2]
        assert [len(writer.store.events_of(f"job-00000{seq}")) for seq in (2, 3)] == [0, 1]
        assert compact(writer, 110, Retention(jobs=75, keys=85)).jobs == 2

    def test_shrinking_ends_and_loses_nothing(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(seq, spec=bytes(2_000)) for seq in range(1, 301)])
        writer.commit(ends=[end_row(seq, ended_at=1) for seq in range(1, 300)])
        assert compact(writer, 10, Retention(jobs=0)).jobs == 299
        before = everything(writer.store)
        while writer.store.shrink(spare=0.0):
            pass
        assert everything(writer.store) == before

    def test_commits_go_on_after_compact(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1)], ends=[end_row(1)])
        compact(writer, 10**12, Retention(jobs=0))
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


def assert_refused(store: Store, target: str) -> None:
    """A copy is refused with a clear error."""
    refused = ""
    try:
        store.backup(target)
    except StoreError as error:
        refused = str(error)
    assert target in refused
