"""Opening, committing and loading: what is sealed is there, what is not sealed is not, and there is one owner."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from headgate.ports import (
    CommitFailed,
    Deposed,
    DocumentRow,
    EndedJob,
    EventRow,
    JobQuery,
    RecordRow,
    Store,
    StoreError,
    live_job,
)
from headgate.testing.store_conformance.home import StoreHome, Writer, end_row, job_row, lease_row, status_row

HOSTILE = (
    "'; DROP TABLE job; --",
    '" OR 1=1',
    "%_\\%",
    "тест 例え 🚚 é",
    "a\nb\tc",
    "",
    "NULL",
    "$1 ?1 :name @x",
)


def everything(store: Store) -> dict[str, Any]:
    """All that can be asked of a store, to compare before and after."""
    jobs = store.find_jobs(JobQuery(limit=1_000_000))
    return {
        "jobs": jobs,
        "live": list(store.live_jobs()),
        "ends": store.recent_ends(1_000_000),
        "documents": list(store.documents()),
        "journal": list(store.journal()),
        "events": [store.events_of(view.job.id) for view in jobs],
        "records": [store.records(kind, limit=1_000_000) for kind in ("decision", "load", "audit")],
        "counts": store.counts(),
    }


def one_of_each() -> dict[str, Any]:
    """Content with every type of row and every optional field both set and not set."""
    return {
        "jobs": [
            job_row(1),
            job_row(2, state="blocked", key="key 2", retry_of="job-000001"),
            job_row(3),
            job_row(4, spec=b""),
        ],
        "statuses": [
            status_row(2),
            status_row(3, not_before=None, kind=None, lease_id=None, token=None, verb=None, digest=None),
        ],
        "leases": [
            lease_row(2, started_at=2_100, fence_at=9_000, for_job="job-000003"),
            lease_row(3, worker_id=None, pool_id=None),
        ],
        "ends": [
            end_row(1, error=b"failure", started_at=None, worker_id=None, lease_id=None, token=None),
            end_row(4, verb=None, digest=None, result=None, token=2**62),
        ],
        "documents": [DocumentRow("worker", "w", b"body"), DocumentRow("tenant", "w", b"")],
        "records": [RecordRow("load", 7, 1, "host", b"sample"), RecordRow("decision", 8, 1, "", b"")],
        "events": [EventRow(1, 1, 5, "job-submitted", b"body"), EventRow(1, 2, 6, "job-completed", b"")],
        "journal": b"effects",
        "indexed": 1,
        "seq": 4,
        "tokens": 2**40 - 1,
        "low_water": 2,
    }


class CommitTests:
    """The part of the suite about commits."""

    def test_an_empty_place_opens_at_the_beginning(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        mark = writer.mark
        assert (mark.number, mark.seq, mark.tokens, mark.indexed, mark.low_water) == (0, 0, 0, 0, 0)
        assert mark.epoch >= 1
        found = everything(writer.store)
        assert not any(value for name, value in found.items() if name != "records")
        assert not any(found["records"])

    def test_every_type_of_row_comes_back_as_it_was_written(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        content = one_of_each()
        writer.commit(**content)
        again = writer.reopened(home)
        assert again.mark == writer.mark._replace(epoch=again.mark.epoch)
        store, rows = again.store, content
        assert list(store.live_jobs()) == [
            live_job(rows["jobs"][1], rows["statuses"][0], rows["leases"][0]),
            live_job(rows["jobs"][2], rows["statuses"][1], rows["leases"][1]),
        ]
        assert store.recent_ends(10) == [
            EndedJob(rows["jobs"][0], rows["ends"][0]),
            EndedJob(rows["jobs"][3], rows["ends"][1]),
        ]
        assert sorted(store.documents()) == sorted(rows["documents"])
        assert store.records("load") == rows["records"][:1]
        assert store.records("decision") == rows["records"][1:]
        assert store.events_of("job-000001") == rows["events"]
        assert [(row.number, row.at, row.events) for row in store.journal()] == [(1, 1_000, b"effects")]

    def test_what_was_written_and_not_sealed_is_gone_after_a_crash(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1)], journal=b"first")
        before = everything(writer.store)
        writer.store.write(writer.batch(**one_of_each() | {"jobs": [job_row(2)]}))
        home.crash(writer.store)
        again = Writer(home.store())
        assert everything(again.store) == before
        assert (again.mark.number, again.mark.seq) == (1, 1)

    def test_what_was_written_and_not_sealed_is_gone_after_a_close(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.store.write(writer.batch(jobs=[job_row(1)]))
        again = writer.reopened(home)
        assert again.store.get_job("job-000001") is None
        assert again.mark.number == 0

    def test_a_crash_loses_nothing_that_was_sealed(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(**one_of_each())
        before = everything(writer.store)
        home.crash(writer.store)
        again = Writer(home.store())
        assert everything(again.store) == before
        assert again.mark.epoch > writer.mark.epoch

    def test_closing_twice_is_the_same_as_once(self, home: StoreHome) -> None:
        store = home.store()
        store.close()
        store.open()
        store.close()
        store.close()

    def test_one_handle_can_be_opened_closed_and_opened_again(self, home: StoreHome) -> None:
        store = home.store()
        writer = Writer(store)
        writer.commit(jobs=[job_row(1)])
        store.close()
        again = Writer(store)
        again.commit(jobs=[job_row(2)])
        assert [live.seq for live in store.live_jobs()] == [1, 2]

    def test_each_open_raises_the_epoch(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        epochs = [writer.mark.epoch]
        for _ in range(3):
            writer = writer.reopened(home)
            epochs.append(writer.mark.epoch)
        assert epochs == sorted(set(epochs))

    def test_a_deposed_owner_can_change_nothing(self, home: StoreHome) -> None:
        old = Writer(home.store())
        old.commit(jobs=[job_row(1)], journal=b"old")
        new = Writer(home.usurper())
        assert new.mark.epoch > old.mark.epoch
        before = everything(new.store)
        assert is_deposed(old, jobs=[job_row(2)], journal=b"late")
        assert everything(new.store) == before
        new.commit(jobs=[job_row(2, name="new")], journal=b"new")
        assert [view.job.name for view in new.store.find_jobs(JobQuery(order="oldest"))] == ["name 1", "new"]

    def test_rows_of_the_same_key_replace_each_other(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(**one_of_each())
        changes: dict[str, Any] = {
            "statuses": [status_row(2, attempt=7)],
            "leases": [lease_row(3, started_at=1)],
            "documents": [DocumentRow("worker", "w", b"other")],
            "records": [RecordRow("load", 7, 1, "gpu", b"again")],
            "events": [EventRow(1, 2, 9, "job-failed", b"x")],
        }
        writer.commit(**changes)
        store = writer.reopened(home).store
        live = {live.seq: live for live in store.live_jobs()}
        assert (live[2].status, live[3].lease) == (changes["statuses"][0], changes["leases"][0])
        assert {row.body for row in store.documents()} == {b"other", b""}
        assert store.records("load") == changes["records"]
        assert store.events_of("job-000001", after=1) == changes["events"]

    def test_rows_that_are_gone_stay_away(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(**one_of_each())
        documents = [DocumentRow("tenant", "w", None), DocumentRow("pool", "never there", None)]
        writer.commit(statuses_gone=[2, 99], leases_gone=[3, 99], documents=documents)
        store = writer.reopened(home).store
        live = {live.seq: live for live in store.live_jobs()}
        assert (live[2].status, live[3].lease) == (None, None)
        assert live[2].lease is not None
        assert live[3].status is not None
        assert [row.kind for row in store.documents()] == ["worker"]

    def test_a_job_leaves_the_live_ones_when_it_ends(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(seq) for seq in (1, 2, 3)], leases=[lease_row(2)])
        writer.commit(ends=[end_row(2)], leases_gone=[2])
        assert [live.seq for live in writer.store.live_jobs()] == [1, 3]
        assert [live.seq for live in writer.reopened(home).store.live_jobs()] == [1, 3]

    def test_live_jobs_come_in_order_of_submission_from_the_low_water_mark_on(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(5), job_row(3), job_row(4), job_row(1), job_row(2)], seq=5)
        assert [live.seq for live in writer.store.live_jobs()] == [1, 2, 3, 4, 5]
        writer.commit(ends=[end_row(1), end_row(2), end_row(4)], low_water=3)
        again = writer.reopened(home)
        assert again.mark.low_water == 3
        assert [live.seq for live in again.store.live_jobs()] == [3, 5]

    def test_recent_ends_are_the_last_to_end_oldest_first(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        ended_at = {1: 50, 2: 10, 3: 40, 4: 20, 5: 40}
        writer.commit(jobs=[job_row(seq) for seq in range(1, 8)])
        writer.commit(ends=[end_row(seq, ended_at=at) for seq, at in ended_at.items()])
        store = writer.reopened(home).store
        assert [ended.job.seq for ended in store.recent_ends(3)] == [3, 5, 1]
        assert [ended.end.seq for ended in store.recent_ends(100)] == [2, 4, 3, 5, 1]
        assert store.recent_ends(0) == []

    def test_a_commit_without_effects_leaves_no_row_in_the_journal(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1)])
        writer.commit(journal=b"effects")
        writer.commit(tokens=9)
        assert [row.number for row in writer.store.journal()] == [2]
        assert writer.reopened(home).mark.number == 3

    def test_what_is_not_said_to_be_indexed_leaves_that_mark_alone(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        for _ in range(3):
            writer.commit(journal=b"effects")
        writer.commit(indexed=2)
        writer.commit(journal=b"effects")
        assert writer.reopened(home).mark.indexed == 2

    def test_a_second_job_of_the_same_id_is_refused_with_its_whole_batch(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1, id="same", name="first")])
        failed = False
        try:
            writer.commit(jobs=[job_row(2), job_row(3, id="same", name="second")])
        except CommitFailed:
            failed = True
        assert failed
        store = writer.reopened(home).store
        assert [view.job.name for view in store.find_jobs(JobQuery())] == ["first"]

    def test_large_payloads_and_results_come_back_whole(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        large = bytes(range(256)) * 4_096
        writer.commit(jobs=[job_row(1, spec=large), job_row(2)])
        writer.commit(ends=[end_row(1, result=large[::-1], error=large)], journal=large)
        store = writer.reopened(home).store
        view = store.get_job("job-000001")
        assert view is not None
        assert view.end is not None
        assert (view.job.spec, view.end.result, view.end.error) == (large, large[::-1], large)
        assert [row.events for row in store.journal()] == [large]

    def test_names_are_taken_literally(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        jobs = [
            job_row(seq, id=f"{seq}{text}", tenant=text, type=text, name=text, priority=text, key=text)
            for seq, text in enumerate(HOSTILE, start=1)
        ]
        documents = [DocumentRow(text, text, text.encode()) for text in HOSTILE]
        records = [RecordRow(text, 1, 1, text, b"") for text in HOSTILE]
        writer.commit(jobs=jobs, documents=documents, records=records)
        store = writer.reopened(home).store
        assert [live.id for live in store.live_jobs()] == [job.id for job in jobs]
        assert sorted(store.documents()) == sorted(documents)
        for job in jobs:
            assert_found_literally(store, job.name, job.id)


def assert_found_literally(store: Store, text: str, job_id: str) -> None:
    """A hostile text finds the one job that bears it, by every question that takes a text."""
    assert [view.job.id for view in store.find_jobs(JobQuery(tenants=(text,)))] == [job_id]
    assert [view.job.id for view in store.find_jobs(JobQuery(types=(text,)))] == [job_id]
    named = store.find_jobs(JobQuery(name_contains=text))
    assert [view.job.name for view in named] == [name for name in reversed(HOSTILE) if text in name]
    assert [job.id for job in store.find_keys([(text, text)]).values()] == [job_id]
    assert list(store.states_of([job_id])) == [job_id]
    assert [row.kind for row in store.records(text, key=text)] == [text]


def is_deposed(writer: Writer, **content: Any) -> bool:
    """Whether a commit is refused because another engine took over; the handle then stays out."""
    deposed = False
    try:
        writer.commit(**content)
    except Deposed:
        deposed = True
    with suppress(StoreError):
        writer.commit(**content)
        return False
    return deposed
