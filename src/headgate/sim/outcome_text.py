"""The outcome of a what-if as text: the two worlds side by side, who gains and who loses, and where they part."""

from __future__ import annotations

from headgate.policy.statistics import Interval
from headgate.sim.outcome import Change, GroupChange, Outcome, Side
from headgate.sim.text import divergence, span, table

_SHIFTS = 10


def outcome_text(found: Outcome) -> str:
    """All of it, for a terminal."""
    head = f"{found.workload}: {found.jobs:,} jobs" + (f", {span(found.seconds)} ahead" if found.seconds else "")
    head += ", cut" if found.cut else ""
    parts = [table([head, *(side.policy for side in found.sides)], _rows(found.sides))]
    if found.change is not None:
        parts += _change(found.change, found)
    parts += [f"note: {note}" for note in found.notes]
    return "\n\n".join(parts)


def _rows(sides: list[Side]) -> list[list[str]]:
    rows = [
        ["changed", *(side.changes or "nothing" for side in sides)],
        ["started / ended", *(f"{side.started:,} / {side.ended:,}" for side in sides)],
        ["wait, mean", *(span(side.mean_wait) for side in sides)],
        ["bounded slowdown, mean", *(f"{side.mean_slowdown:,.2f}" for side in sides)],
        ["in use", *(f"{side.utilisation:.1%}" for side in sides)],
        ["policy failures", *(", ".join(f"{k} {n:,}" for k, n in side.failures.items()) or "0" for side in sides)],
    ]
    return rows if any(side.changes for side in sides) else rows[1:]


def _change(change: Change, found: Outcome) -> list[str]:
    sides = found.sides
    lines = [f"{sides[1].policy} against {sides[0].policy}, over {change.jobs:,} jobs (95 % interval):"]
    lines.append(f"  wait              {_interval(change.wait, seconds=True)}")
    lines.append(f"  bounded slowdown  {_interval(change.slowdown, seconds=False)}")
    lines.append(f"  {change.better:,} jobs wait less, {change.worse:,} wait more")
    names = (sides[0].policy, sides[1].policy)
    lines.append("  " + divergence(*names, change.divergence, found.tick, found.begin, cut=found.cut))
    parts = ["\n".join(lines)]
    parts.append(_groups("class", change.classes))
    if len(change.tenants) > 1:
        parts.append(_groups("tenant", change.tenants))
    if change.shifts:
        parts.append(_shifts(change))
    return parts


def _interval(interval: Interval, *, seconds: bool) -> str:
    mean, low, high = (span(v) if seconds else f"{v:+,.2f}" for v in (interval.mean, interval.low, interval.high))
    verdict = "no clear difference" if not interval.clear else "better" if interval.mean < 0 else "worse"
    return f"{mean:>12}  [{low}, {high}]  {verdict}"


def _groups(name: str, groups: dict[str, GroupChange]) -> str:
    rows = [
        [key, f"{g.jobs:,}", span(g.wait_before), span(g.wait_after), f"{g.slowdown_before:,.2f}",
         f"{g.slowdown_after:,.2f}"]
        for key, g in list(groups.items())[:20]
    ]  # fmt: skip
    return table([name, "jobs", "wait before", "after", "slowdown before", "after"], rows)


def _shifts(change: Change) -> str:
    rows = [
        [s.job_id, s.tenant, s.job_class, _start(s.before), _start(s.after), span(s.wait_change)]
        for s in change.shifts[:_SHIFTS]
    ]
    return table(["moved most", "tenant", "class", "starts in", "would in", "wait"], rows)


def _start(seconds: float | None) -> str:
    return "not in this time" if seconds is None else span(seconds)
