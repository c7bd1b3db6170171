"""Questions about the past: every filter, order and page, compared with plain answers."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Thread

import msgspec

from headgate.core.states import JobState
from headgate.ports import EventRow, JobQuery, JobView, RecordRow, Store
from headgate.testing.store_conformance.home import StoreHome, Writer, end_row, job_row, lease_row, status_row
from headgate.testing.store_conformance.world import World


def settled(home: StoreHome, world: World) -> Store:
    """A store that holds a world."""
    writer = Writer(home.store())
    writer.commit(**world.content())
    return writer.store


def pages(store: Store, query: JobQuery) -> list[JobView]:
    """All pages of an answer, one after the other."""
    found: list[JobView] = []
    while page := store.find_jobs(query):
        assert len(page) <= query.limit
        found += page
        query = msgspec.structs.replace(query, after=page[-1].job.seq)
    return found


@dataclass
class Answer:
    """What another thread was told."""

    views: list[JobView]


class HistoryTests:
    """The part of the suite about queries."""

    def test_any_combination_of_filters_finds_exactly_the_jobs_it_describes(self, home: StoreHome) -> None:
        world = World(seed=1, size=150)
        store = settled(home, world)
        for _ in range(400):
            query = world.question()
            assert store.find_jobs(query) == world.find(query), query

    def test_each_filter_alone_finds_exactly_the_jobs_it_describes(self, home: StoreHome) -> None:
        world = World(seed=2, size=120)
        store = settled(home, world)
        queries = [JobQuery(states=(state,)) for state in JobState]
        queries += [JobQuery(classes=(job_class,)) for job_class in range(4)]
        queries += [JobQuery(tenants=("a", "ä")), JobQuery(types=("mail%",)), JobQuery(name_contains="%")]
        queries += [JobQuery(created_from=400), JobQuery(created_to=400), JobQuery(ended_from=400)]
        queries += [JobQuery(ended_to=400), JobQuery(order="oldest"), JobQuery(limit=0), JobQuery(after=60)]
        for query in queries:
            assert store.find_jobs(query) == world.find(query), query

    def test_ranges_of_time_begin_with_their_start_and_stop_before_their_end(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(seq, created_at=seq) for seq in (1, 2, 3)])
        writer.commit(ends=[end_row(seq, ended_at=seq) for seq in (1, 2, 3)])
        created = writer.store.find_jobs(JobQuery(created_from=1, created_to=3))
        ended = writer.store.find_jobs(JobQuery(ended_from=2, ended_to=3))
        assert [view.job.seq for view in created] == [2, 1]
        assert [view.job.seq for view in ended] == [2]

    def test_pages_in_either_order_give_every_job_once(self, home: StoreHome) -> None:
        world = World(seed=3, size=100)
        store = settled(home, world)
        for query in (JobQuery(limit=7), JobQuery(limit=9, order="oldest", tenants=("a", "b"))):
            whole = msgspec.structs.replace(query, limit=1_000)
            assert pages(store, query) == world.find(whole)

    def test_a_page_is_not_disturbed_by_jobs_that_come_later(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(seq) for seq in range(1, 7)])
        first = writer.store.find_jobs(JobQuery(limit=3))
        writer.commit(jobs=[job_row(7), job_row(8)])
        second = writer.store.find_jobs(JobQuery(limit=3, after=first[-1].job.seq))
        assert [view.job.seq for view in first + second] == [6, 5, 4, 3, 2, 1]

    def test_one_job_is_seen_with_all_that_became_of_it(self, home: StoreHome) -> None:
        world = World(seed=4, size=60)
        store = settled(home, world)
        for seq, job in world.jobs.items():
            assert store.get_job(job.id) == world.view(seq)
        assert store.get_job("nobody") is None

    def test_the_state_follows_the_rows(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        store = writer.store

        def state() -> JobState:
            view = store.get_job("job-000001")
            assert view is not None
            return view.state

        writer.commit(jobs=[job_row(1, state="blocked")])
        assert state() == JobState.BLOCKED
        writer.commit(statuses=[status_row(1, state="queued")])
        assert state() == JobState.QUEUED
        writer.commit(leases=[lease_row(1)])
        assert state() == JobState.LEASED
        writer.commit(leases=[lease_row(1, started_at=9)])
        assert state() == JobState.RUNNING
        writer.commit(leases_gone=[1], statuses_gone=[1], ends=[end_row(1, state="cancelled")])
        assert state() == JobState.CANCELLED

    def test_the_states_of_ten_thousand_jobs_come_at_once(self, home: StoreHome) -> None:
        world = World(seed=5, size=2_000)
        store = settled(home, world)
        asked = [job.id for job in world.jobs.values()] + [f"nobody-{n}" for n in range(8_000)]
        assert store.states_of(asked) == {job.id: world.state(seq) for seq, job in world.jobs.items()}
        assert store.states_of([]) == {}
        assert store.states_of(iter(asked[:2])) == {asked[n]: world.state(n + 1) for n in (0, 1)}

    def test_jobs_are_counted_by_state_and_class(self, home: StoreHome) -> None:
        world = World(seed=6, size=300)
        assert settled(home, world).counts() == world.counts()

    def test_a_job_is_found_by_its_key_within_its_tenant(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        jobs = [job_row(1, tenant="a", key="k"), job_row(2, tenant="b", key="k"), job_row(3, tenant="a")]
        writer.commit(jobs=jobs)
        writer.commit(ends=[end_row(1)])
        store = writer.reopened(home).store
        assert store.find_keys([("a", "k")]) == {("a", "k"): jobs[0]}
        assert store.find_keys([("b", "k"), ("a", "other"), ("c", "k")]) == {("b", "k"): jobs[1]}
        assert store.find_keys([]) == {}

    def test_a_thousand_keys_are_looked_up_at_once(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        jobs = [job_row(seq, tenant=f"t{seq % 3}", key=f"k{seq % 500}") for seq in range(1, 1_001)]
        writer.commit(jobs=jobs)
        asked = {(f"t{tenant}", f"k{key}") for tenant in range(4) for key in range(600)}
        last = {(job.tenant, str(job.key)): job for job in jobs}
        assert writer.store.find_keys(asked) == last

    def test_the_journal_is_read_from_any_point(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        for number in range(1, 3_001):
            writer.store.write(writer.batch(journal=b"%d" % number))
            if number % 500 == 0:
                writer.store.seal()
        store = writer.store
        for after in (0, 1, 1_234, 2_999, 3_000, 9_999):
            assert [row.number for row in store.journal(after)] == list(range(after + 1, 3_001))
        first = next(iter(store.journal(41)))
        assert (first.number, first.epoch, first.at, first.events) == (42, writer.mark.epoch, 42_000, b"42")

    def test_the_journal_can_be_read_while_commits_go_on(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(journal=b"1")
        writer.commit(journal=b"2")
        reading = writer.store.journal()
        assert next(reading).number == 1
        writer.commit(journal=b"3")
        assert [row.number for row in reading][:1] == [2]

    def test_the_journal_is_found_by_time_in_pages(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        times = [10, 20, 20, 90, 30, 40, 50]  # the clock of one start stood ahead of the next
        for at in times:
            writer.commit(journal=b"%d" % at, at=at)
        store = writer.store

        def found(**asked: int) -> list[int]:
            return [row.at for row in store.entries(**asked)]

        assert found() == times
        assert found(since=20, until=50) == [20, 20, 30, 40]
        assert found(since=20, until=50, after=2, limit=2) == [20, 30]
        assert found(since=91) == []
        assert [(row.number, row.epoch, row.events) for row in store.entries(since=90)] == [
            (4, writer.mark.epoch, b"90")
        ]

    def test_a_jobs_events_come_oldest_first_and_in_pages(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        events = [EventRow(1, number, 10 * number, "job-aged", b"%d" % number) for number in range(1, 21)]
        writer.commit(jobs=[job_row(1), job_row(2)], events=[EventRow(2, 1, 1, "x", b""), *events[::-1]])
        store = writer.store
        assert store.events_of("job-000001") == events
        assert store.events_of("job-000001", after=5, limit=3) == events[5:8]
        assert store.events_of("job-000001", after=20) == []
        assert store.events_of("nobody") == []

    def test_records_are_found_by_kind_time_and_key(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        rows = [RecordRow("load", at, number, f"key {at % 3}", b"") for at in range(20) for number in (1, 2)]
        writer.commit(records=[*rows[::-1], RecordRow("audit", 3, 1, "key 0", b"other")])
        store = writer.store
        assert store.records("load") == rows
        assert store.records("load", since=5, until=7) == [row for row in rows if 5 <= row.at < 7]
        assert store.records("load", key="key 1") == [row for row in rows if row.key == "key 1"]
        assert (
            store.records("load", since=3, until=15, key="key 0", limit=3)
            == [row for row in rows if 3 <= row.at < 15 and row.key == "key 0"][:3]
        )
        assert store.records("load", newest=True) == rows[::-1]
        assert store.records("load", until=7, limit=3, newest=True) == [row for row in rows if row.at < 7][:-4:-1]
        assert [row.body for row in store.records("audit")] == [b"other"]
        assert store.records("none") == []

    def test_questions_may_come_from_other_threads_while_a_batch_is_open(self, home: StoreHome) -> None:
        writer = Writer(home.store())
        writer.commit(jobs=[job_row(1)])
        writer.store.write(writer.batch(jobs=[job_row(2)]))
        answers: list[Answer] = []
        threads = [Thread(target=lambda: answers.append(Answer(writer.store.find_jobs(JobQuery())))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [[view.job.seq for view in answer.views] for answer in answers] == [[1]] * 4
        writer.store.seal()
        assert [view.job.seq for view in writer.store.find_jobs(JobQuery())] == [2, 1]
