"""One rule as a Lua function: the walk over jobs and workers, and the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from headgate.policy.rules.conditions import split
from headgate.policy.rules.luatext import literal, quoted
from headgate.policy.rules.model import (
    Dispatch,
    Evict,
    LuaBody,
    LuaScript,
    Preempt,
    Rule,
    StartWorker,
    UsePlatform,
    Wait,
)

_SCORES = {
    "least-loaded": "least_loaded",
    "most-vram-free": "most_vram_free",
    "round-robin": "round_robin",
    "first": "first_worker",
    "best-fit": "best_fit",
    "cache-affinity": "cache_affinity",
}
_EVICTIONS = {"lru": "least_recently_used", "lfu": "least_often_used", None: "least_recently_used"}
_STEP = "  "


class RuleWriter:
    """Writes the block of one rule; `needs` then names the functions of the prelude that it calls."""

    def __init__(self, rule: Rule, function: str) -> None:
        self._rule, self._function = rule, function
        self._split = split(rule.condition)
        self.needs: set[str] = set(self._split.needs)
        self._lines: list[str] = []
        self._depth = 0

    def write(self) -> list[str]:
        self._open("do")
        self._card()
        self._open(f"local function {self._function}(context, seen)")
        self._look_at_world()
        self._act()
        self._close()
        self._put(f"rules[#rules + 1] = {{ name = {self._name}, ask = {self._function} }}")
        self._close()
        return self._lines

    def _card(self) -> None:
        """Raw Lua stands as it was written: indenting it could change a string that spans lines."""
        action = self._rule.action
        if isinstance(action, LuaBody):
            self._put("local function card(context, job, worker)")
            self._lines += [*action.source.split("\n"), "  end"]
        elif isinstance(action, LuaScript):
            self._put("local schedule  -- the script defines it; ours stays apart")
            self._put("local function script(...)")
            self._lines += [*action.source.split("\n"), "  end"]
            self._put("script()")
            self._put('assert(schedule, "the script defines no function schedule")')
            self._put("local function card(context) return schedule(context) end")

    def _look_at_world(self) -> None:
        for name in sorted(self._split.uses & {"metrics", "time"}):
            self._put(f"local {name} = context.{name} or {{}}")
        if self._split.world:
            self._put(f"if not ({self._split.world}) then return nil end")

    def _act(self) -> None:
        action = self._rule.action
        match action:
            case Dispatch():
                self._dispatch(action)
            case Evict():
                self._evict(action)
            case StartWorker():
                self._start_worker(action)
            case Preempt():
                self._preempt(action)
            case Wait(duration):
                retry = [] if duration is None else [f"retry_after_ms = {duration}"]
                self._if_found(lambda: self._answer("wait", *retry))
            case UsePlatform():
                self.needs.add("signed")
                self._if_found(lambda: self._put(f"return signed(platform.schedule(context), {self._name})"))
            case LuaBody() | LuaScript():
                self._if_found(self._ask_card)
            case _:
                assert_never(action)

    # -- the actions

    def _dispatch(self, action: Dispatch) -> None:
        score = _SCORES[action.worker_selection]
        self.needs |= {"ready_workers", "choose_worker", "may_start", score}
        self._put("if #ready_workers(context, seen).all == 0 then return nil end")
        accepts = self._acceptance(self._split.worker)
        self._each_job("may_start(context, job)")
        match_ = quoted(action.model_match or "required")
        self._put(f"local worker = choose_worker(context, seen, job, {match_}, {score}, {accepts})")
        self._open("if worker then")
        self._answer("dispatch", "job_id = job.id", "worker_id = worker.id")
        self._close_all_but(2)

    def _evict(self, action: Evict) -> None:
        score = _EVICTIONS[action.select]
        self.needs |= {"evictable", score}
        named = [] if action.worker_id is None else [f"worker.id == {quoted(action.worker_id)}"]
        conditions = [*named, *([self._split.worker] if self._split.worker else [])]
        accepts = self._acceptance(" and ".join(conditions) or None)
        if self._about_jobs:
            self._each_job()
        else:
            self._put("local job = nil")
        self._put(f"local worker = evictable(context, job, {score}, {accepts})")
        self._open("if worker then")
        self._answer("evict", "evict_worker_id = worker.id")
        self._close_all_but(2)

    def _start_worker(self, action: StartWorker) -> None:
        self.needs |= {"is_served", "place_for_start"}
        walks = self._about_jobs or action.model_ref is None

        def launch() -> None:
            model = "job.model_ref" if action.model_ref is None else quoted(action.model_ref)
            self._put(f"local model_ref = {model}")
            self._open("if model_ref ~= nil and not is_served(context, model_ref) then")
            vram = "job.estimated_vram or 0" if walks else "0"
            place = f"{_or_nil(action.pool_id)}, {_or_nil(action.gpu_id)}, {vram}"
            self._put(f"local pool_id, gpu_id = place_for_start(context, {place})")
            self._open("if pool_id ~= nil then")
            start = "{ model_ref = model_ref, pool_id = pool_id, gpu_id = gpu_id }"
            self._answer("start_worker", f"start_worker = {start}")

        self._if_found(launch, walks=walks)

    def _preempt(self, action: Preempt) -> None:
        self.needs.add("victims_for")

        def preempt() -> None:
            classes = ", ".join(quoted(name) for name in action.classes)
            self._put(f"local victims = victims_for(context, job, {{ {classes} }})")
            self._open("if victims then")
            self._answer("preempt", "job_id = job.id", "victims = victims")

        self._if_found(preempt, walks=True)

    def _ask_card(self) -> None:
        self.needs.add("signed")
        job = "job" if self._about_jobs else "nil"
        worker = "worker" if self._split.worker else "nil"
        self._put(f"local answer = card(context, {job}, {worker})")
        self._open("if answer ~= nil then")
        self._put(f"return signed(answer, {self._name})")

    # -- the walk

    def _if_found(self, act: Callable[[], None], *, walks: bool | None = None) -> None:
        """Runs the action for the first job and worker that the condition speaks of."""
        accepts = self._acceptance(self._split.worker) if self._split.worker else None
        if self._about_jobs if walks is None else walks:
            self._each_job()
        if accepts:
            self.needs.add("each_worker")
            job = "job" if self._about_jobs else "nil"
            self._open("local worker = each_worker(context, function(worker, pool)")
            self._put(f"if accepts({job}, worker, pool) then return worker end")
            self._close("end)")
            self._open("if worker then")
        act()
        self._close_all_but(2)

    def _each_job(self, *further: str) -> None:
        if self._split.by_group:
            self._open("for _, group in ipairs(context.groups) do")
            self._put("local job = group.head")
        else:
            self._open("for _, job in ipairs(context.queue) do")
        if self._split.job and "tenant" in self._split.uses:
            self._bind_tenant()
        tests = [test for test in (self._split.job, *further) if test]
        if tests:
            self._open(f"if {' and '.join(tests)} then")

    def _acceptance(self, expression: str | None) -> str:
        if expression is None:
            self.needs.add("any_worker")
            return "any_worker"
        self._open("local function accepts(job, worker, pool)")
        if "tenant" in self._split.worker_uses:
            self._bind_tenant()
        self._put(f"return {expression}")
        self._close()
        return "accepts"

    def _bind_tenant(self) -> None:
        self.needs.add("tenant_of")
        self._put("local tenant = tenant_of(context, job, seen)")

    @property
    def _about_jobs(self) -> bool:
        return bool(self._split.uses & {"job", "tenant"})

    # -- the text

    @property
    def _name(self) -> str:
        return quoted(self._rule.name)

    def _answer(self, action: str, *parts: str) -> None:
        self._put("return {")
        for part in (f"action = {quoted(action)}", *parts):
            self._put(f"  {part},")
        self._put(f"  reason = {quoted('rule ' + self._rule.name)},")
        self._put(f"  rule = {self._name},")
        self._put("}")

    def _put(self, line: str) -> None:
        self._lines.append(_STEP * self._depth + line)

    def _open(self, line: str) -> None:
        self._put(line)
        self._depth += 1

    def _close(self, word: str = "end") -> None:
        self._depth -= 1
        self._put(word)

    def _close_all_but(self, depth: int) -> None:
        while self._depth > depth:
            self._close()


def _or_nil(value: str | int | None) -> str:
    return "nil" if value is None else literal(value)
