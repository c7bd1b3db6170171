"""Any order of commands, drawn and shrunk by hypothesis; the harness verifies the state after each."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from headgate.core import commands as c
from headgate.core import events as e
from headgate.core.actions import Action, Dispatch, Evict, Preempt, StartWorker, Wait
from headgate.core.errors import HeadgateError
from headgate.core.job import PRIORITIES
from headgate.core.settings import Settings
from headgate.core.states import TERMINAL, JobState
from headgate.testing import Harness, gpu, job, model, pool, tenant, worker

TENANTS = st.sampled_from(["default", "red", "blue"])
POOLS = st.sampled_from(["default", "left"])
NAMES = st.sampled_from(["w1", "w2", "w3"])
PICK = st.integers(0, 10_000)
SETTINGS = Settings(
    total_units=20,
    max_queue_depth=25,
    max_dependency_depth=4,
    ageing=30_000,
    stagger=20,
    retain_finished=8,
    lease_ttl=6_000,
    preemption_grace=2_000,
    recalculate=500,
    fall_half_life=500,
    poll=60_000,
)
SPECS = st.fixed_dictionaries(
    {
        "priority": st.sampled_from(sorted(PRIORITIES)),
        "units": st.sampled_from([0, 1, 2, 5, 18]),
        "tenant": TENANTS,
    },
    optional={
        "rank": st.integers(-2, 2),
        "resources": st.fixed_dictionaries(
            {"memory": st.sampled_from(["1GB", "3GB"]), "cpu": st.sampled_from([0.1, 1])}
        ),
        "pool": POOLS,
        "requires": st.just({"zone": "a"}),
        "model_ref": st.sampled_from(["m", "n"]),
        "run": st.just({"kind": "external"}),
        "timeout": st.sampled_from([0.001, 1, 5]),
        "retry": st.fixed_dictionaries({"attempts": st.integers(1, 3), "initial": st.sampled_from([0, 1])}),
        "checkpointable": st.booleans(),
        "on_dependency_failure": st.sampled_from(["fail", "run"]),
        "idempotency_key": st.sampled_from([f"k{n}" for n in range(9)]),
    },
)
LEASE_WORDS: list[Callable[[str, int], c.Command[Any]]] = [
    c.Start,
    c.Heartbeat,
    lambda lease, token: c.Progress(lease, token, 0.5, "half"),
    lambda lease, token: c.Complete(lease, token, b"1"),
    lambda lease, token: c.Complete(lease, token, b"2"),
    lambda lease, token: c.Fail(lease, token, e.Failure("oom")),
    lambda lease, token: c.Fail(lease, token, e.Failure("oom"), retry=False),
    c.Release,
]
CLUSTER: st.SearchStrategy[c.Command[Any]] = st.one_of(
    st.builds(
        lambda *fields: c.RegisterWorker(
            worker(fields[0], slots=fields[1], prefetch=fields[2], pool=fields[3], pull=fields[4], memory="4GB", cpu=1)
        ),
        NAMES,
        st.integers(1, 4),
        st.integers(0, 1),
        POOLS,
        st.sampled_from([False, False, True]),
    ),
    st.builds(c.WorkerBeat, NAMES),
    st.builds(c.Claim, NAMES, st.integers(0, 3)),
    st.builds(c.DrainWorker, NAMES),
    st.builds(c.UndrainWorker, NAMES),
    st.builds(c.EvictWorker, NAMES),
    st.builds(c.FailWorker, NAMES),
    st.builds(c.RemoveWorker, NAMES, st.booleans()),
    st.builds(
        lambda name, busy, units: c.ReportPool(
            pool(name, busy=busy, units=units, gpus=[gpu("gpu0")], workers=["w1", "w2"], memory="5GB")
        ),
        POOLS,
        st.sampled_from([None, 0.0, 5.0, 10.0, float("nan")]),
        st.sampled_from([None, 0, 6]),
    ),
    st.builds(c.RemovePool, POOLS),
    st.builds(
        lambda name, weight, units, queued: c.SetTenant(tenant(name, weight=weight, units=units, queued=queued)),
        TENANTS,
        st.sampled_from([0.1, 1.0, 4.0]),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(0, 20),
    ),
    st.builds(c.RemoveTenant, TENANTS),
    st.builds(lambda vram: c.SetModel(model("m", vram)), st.sampled_from(["1GB", "80GB"])),
    st.just(c.RemoveModel("m")),
    st.just(c.Resume()),
)


class CoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.h = Harness(SETTINGS)
        self.h.sample(cpu=0.0)
        self.refused: Counter[str] = Counter()

    def tell(self, command: c.Command[Any], lag: int = 0) -> None:
        """Give a command; a refusal is a fine answer, as long as it is typed and changes nothing."""
        try:
            self.h.tell(command, at=self.h.now - lag)
        except HeadgateError as error:
            self.refused[error.code] += 1

    def a_job(self, pick: int) -> str:
        jobs = list(self.h.state.jobs)
        return jobs[pick % len(jobs)] if jobs else "nobody"

    @initialize(slots=st.integers(1, 4), specs=st.lists(SPECS, min_size=3, max_size=10))
    def a_cluster_at_work(self, slots: int, specs: list[dict[str, Any]]) -> None:
        offers: dict[str, Any] = {"slots": slots, "memory": "4GB", "cpu": 2, "labels": {"zone": "a"}}
        self.h.join(worker("w1", **offers), worker("w2", pool="left", prefetch=1, **offers))
        self.h.submit_all(job("first", **spec | {"idempotency_key": None}) for spec in specs)
        self.h.cycle()

    @rule(spec=SPECS, picks=st.lists(PICK, max_size=2), begin=st.none() | st.integers(-2, 5), end=st.none() | PICK)
    def submit(self, spec: dict[str, Any], picks: list[int], begin: int | None, end: int | None) -> None:
        now = self.h.now / 1000
        times = {"not_before": None if begin is None else now + begin}
        times["deadline"] = None if end is None else now + 5 + end % 30
        spec = spec | times | {"dependencies": [self.a_job(pick) for pick in picks]}
        self.tell(c.Submit((c.NewJob(self.h.ids.new(), job("one", **spec)),)))

    @rule(specs=st.lists(SPECS, min_size=2, max_size=5), edges=st.lists(st.tuples(PICK, PICK), max_size=4))
    def submit_in_bulk(self, specs: list[dict[str, Any]], edges: list[tuple[int, int]]) -> None:
        """Edges go anywhere among the new jobs, so some bulks hold circles."""
        ids = [self.h.ids.new() for _ in specs]
        wants: dict[str, list[str]] = {id_: [] for id_ in ids}
        for child, parent in edges:
            wants[ids[child % len(ids)]].append(ids[parent % len(ids)])
        jobs = [c.NewJob(id_, job("many", after=wants[id_], **spec)) for id_, spec in zip(ids, specs, strict=True)]
        self.tell(c.Submit(tuple(jobs)))

    @rule(ms=st.sampled_from([20, 50, 1_000]))
    def plan_first_fit(self, ms: int) -> None:
        """Until nothing more fits, and once more a little later: starts keep their distance."""
        for _ in range(3):
            self.h.cycle()
            self.h.clock.advance(ms)

    @rule(picks=st.lists(st.tuples(st.integers(0, 5), PICK, PICK, PICK), max_size=5))
    def plan_nonsense(self, picks: list[tuple[int, int, int, int]]) -> None:
        actions: list[Action] = []
        workers = [*self.h.state.workers, "nobody"]
        for choice, a, b, which in picks:
            one, other, name = self.a_job(a), self.a_job(b), workers[which % len(workers)]
            options: list[Action] = [
                Dispatch(one, name),
                Dispatch(one),
                Preempt(one, (other,)),
                Evict(name),
                StartWorker("m", "left", ("gpu0", None)[which % 2]),
                Wait("so", which),
            ]
            actions.append(options[choice])
        self.tell(c.Schedule(tuple(actions)))

    @rule(pick=PICK, word=st.sampled_from(LEASE_WORDS), lag=st.sampled_from([0, 0, 0, 1, 5_000]))
    def word_of_a_holder(self, pick: int, word: Callable[[str, int], c.Command[Any]], lag: int) -> None:
        """Of a live lease as likely as of an old one."""
        leases = [*self.h.state.leases.values(), *self.h.leases[-3:]]
        if leases:
            lease = leases[pick % len(leases)]
            self.tell(word(lease.id, lease.token), lag)

    @rule(word=st.sampled_from(LEASE_WORDS))
    def word_of_every_holder(self, word: Callable[[str, int], c.Command[Any]]) -> None:
        for lease in list(self.h.state.leases.values()):
            self.tell(c.Start(lease.id, lease.token))
            self.tell(word(lease.id, lease.token))

    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        self.tell(c.Cancel(self.a_job(pick)))

    @rule(
        pick=PICK,
        priority=st.none() | st.sampled_from(sorted(PRIORITIES)),
        rank=st.none() | st.integers(-2, 2),
        wait=st.none() | st.integers(-1_000, 3_000),
    )
    def patch(self, pick: int, priority: str | None, rank: int | None, wait: int | None) -> None:
        begin = msgspec.UNSET if wait is None else None if wait < 0 else self.h.now + wait
        self.tell(c.Patch(self.a_job(pick), priority=priority, rank=rank, not_before=begin))

    @rule(command=CLUSTER)
    def the_cluster_changes(self, command: c.Command[Any]) -> None:
        self.tell(command)

    @rule(cpu=st.sampled_from([0.0, 0.6, 1.0, -1.0, 1e300, float("nan"), float("inf"), None]))
    def sample(self, cpu: float | None) -> None:
        self.tell(c.SampleLoad("host", {"cpu": cpu}))

    @rule()
    def all_is_calm(self) -> None:
        """Everybody is there and nothing is busy, so that the walk does not end in a cluster that is shut for good."""
        for name in ("w1", "w2"):
            if name not in self.h.state.workers or self.h.state.worker(name).status != "ready":
                self.h.join(worker(name, slots=4, memory="9GB", cpu=2, labels={"zone": "a"}))
        self.h.report(pool("default", workers=["w1", "w2"]))
        self.h.clock.advance(5_000)
        for _ in range(2):
            self.h.sample(cpu=0.0)
            self.h.clock.advance(500)

    @rule(ms=st.sampled_from([1, 50, 1_000, 2_500, 7_000, 40_000, 7_200_000]))
    def time_passes(self, ms: int) -> None:
        self.h.advance(ms)

    @rule(lag=st.sampled_from([1, 1_000, 60_000]))
    def a_tick_lags(self, lag: int) -> None:
        self.tell(c.Tick(), lag)

    def teardown(self) -> None:
        """In the end every job can be brought to an end: none is stuck anywhere."""
        for job_id, found in list(self.h.state.jobs.items()):
            if found.state not in TERMINAL and self.h.state.jobs[job_id].state not in TERMINAL:
                self.h.cancel(job_id)
        live = {state: count for state, count in self.h.state.counts.items() if state not in TERMINAL}
        assert not any(live.values()), live
        assert not self.h.state.leases
        assert self.h.state.leased_units == 0
        assert self.h.state.counts[JobState.RUNNING] == 0


CoreMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCoreMachine = CoreMachine.TestCase
