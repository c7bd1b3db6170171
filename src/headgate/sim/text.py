"""Results and comparisons as text that a person can read in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headgate.sim.compare import Comparison, Difference, Divergence
from headgate.sim.records import Grant
from headgate.sim.results import Results

_NOTHING = {"", "0", "0 / 0"}
"""Counts that are not worth a line."""
_NAMES = {"wait": "wait", "turnaround": "turnaround", "slowdown": "bounded slowdown"}


def span(seconds: float) -> str:
    """A duration as people say it."""
    size = abs(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if size >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.1f} s" if size >= 1 or size == 0 else f"{seconds * 1000:,.1f} ms"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns in line: the first to the left, the others to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    out = []
    for line in lines:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        out.append("  ".join(cells).rstrip())
    out.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(out)


def summary_rows(results: Results) -> list[tuple[str, str]]:
    """Names and figures of one run."""
    counts = results.counts
    rows = [
        ("jobs", _jobs(results)),
        ("wait, mean", span(results.wait.mean)),
        ("wait, p50 / p95 / p99", " / ".join(span(v) for v in (results.wait.p50, results.wait.p95, results.wait.p99))),
        ("wait, longest", span(results.wait.largest)),
        ("bounded slowdown, mean / p95", f"{results.slowdown.mean:,.2f} / {results.slowdown.p95:,.2f}"),
        ("turnaround, mean", span(results.turnaround.mean)),
        ("makespan", span(results.makespan)),
        ("utilisation", f"{results.utilisation:.2%}"),
        ("throughput", f"{results.throughput:,.1f} jobs/h"),
        ("fairness between tenants", f"{results.fairness:.4f}"),
        ("deadline misses", f"{results.deadline_misses:,}"),
        ("preemptions / evictions", f"{counts.preemptions:,} / {counts.evictions:,}"),
        ("model loads", f"{counts.model_loads:,}"),
        ("failed attempts / dead workers", f"{counts.failed_attempts:,} / {counts.worker_failures:,}"),
        ("refused actions", f"{counts.refusals:,}"),
    ]
    if counts.stuck or counts.refused_submissions:
        rows.append(("never started / refused", f"{counts.stuck:,} / {counts.refused_submissions:,}"))
    if counts.policy_failures:
        rows.append(("policy failures", ", ".join(f"{name} {n:,}" for name, n in counts.policy_failures.items())))
    if results.cut is not None:
        rows.append(("cut", f"after {span(_simulated(results))}"))
    return rows


def _jobs(results: Results) -> str:
    """All that came, and what became of them; the figures are over those that ended."""
    left = results.counts.stuck if results.cut is None else results.cut.under_way
    states = {**results.by_state, "not ended": left} if left else results.by_state
    return f"{results.jobs + left:,}" + "".join(f", {n:,} {state}" for state, n in states.items())


def _simulated(results: Results) -> float:
    """Seconds of simulated time until a run was cut."""
    if results.cut is None:
        return results.makespan
    first = min((record.submitted for record in results.records), default=results.cut.at)
    return (results.cut.at - first) * results.tick


def remarks(runs: Sequence[Results]) -> list[str]:
    """What to know before believing the figures of runs of one workload."""
    problems = [f"in the workload: {line}" for line in (runs[0].problems if runs else ())]
    return problems + [remark for results in runs for remark in _remarks(results)]


def _remarks(results: Results) -> list[str]:
    found, counts = list[str](), results.counts
    if results.cut is not None:
        cut = results.cut
        found.append(
            f"{results.policy} was cut after {results.measured.seconds:.1f} s, {span(_simulated(results))} into the "
            f"workload: {cut.under_way:,} jobs had not ended, {cut.to_come:,} had not come yet; the figures are over "
            "the others"
        )
    if counts.stuck:
        found.append(f"{counts.stuck:,} jobs never start under {results.policy}; its figures are over the others")
    if counts.first_failure:
        found.append(
            f"where {results.policy} failed the platform policy decided; the first time: {counts.first_failure}"
        )
    return found


def summary(results: Results) -> str:
    """One run."""
    rows = [*(row for row in summary_rows(results) if row[1] not in _NOTHING), *_measured(results)]
    shown = table((f"{results.policy} on {results.workload}", f"seed {results.seed}"), rows)
    return "\n".join([shown, *(f"note: {remark}" for remark in remarks([results]))])


def _measured(results: Results) -> list[tuple[str, str]]:
    measured = results.measured
    each = f", {measured.policy_seconds / measured.decisions * 1e6:,.0f} us a decision" if measured.decisions else ""
    rate = f" ({results.jobs / measured.seconds:,.0f} jobs/s)" if measured.seconds else ""
    return [
        ("simulated in", f"{measured.seconds:.2f} s{rate}"),
        ("of which policy", f"{measured.policy_seconds:.2f} s{each}"),
    ]


def comparison(compared: Comparison) -> str:
    """Several policies side by side, then what sets each apart from the first."""
    first_runs = [compared.runs[name][0] for name in compared.policies]
    columns = [dict(summary_rows(results)) for results in first_runs]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    rows = [[label, *(column.get(label, "") for column in columns)] for label in labels]
    rows = [row for row in rows if not set(row[1:]) <= _NOTHING]
    parts = [table([first_runs[0].workload, *compared.policies], rows)]
    seeds = len(compared.runs[compared.policies[0]])
    if seeds > 1:
        parts.append(f"The table shows the first of {seeds} seeds; the differences below are over all of them.")
    parts += ["\n".join(f"note: {remark}" for remark in found)] if (found := remarks(first_runs)) else []
    begin, cut = begin_of(first_runs[0]), any(run.cut for runs in compared.runs.values() for run in runs)
    for each in compared.differences:
        parts.append(_difference(compared.policies[0], each, first_runs[0].tick, begin, cut=cut))
    return "\n\n".join(parts)


def begin_of(results: Results) -> int:
    """When the first job came: times are counted from there."""
    return min((record.submitted for record in results.records), default=0)


def _difference(baseline: str, each: Difference, tick: float, begin: int, *, cut: bool) -> str:
    lines = [f"{each.policy} against {baseline}, job by job (95 % interval):"]
    for metric, interval in each.intervals.items():
        show = span if metric != "slowdown" else _signed
        verdict = "no clear difference" if not interval.clear else "better" if interval.mean < 0 else "worse"
        between = f"[{show(interval.low)}, {show(interval.high)}]"
        lines.append(f"  {_NAMES[metric]:<17} {show(interval.mean):>12}  {between}  {verdict}")
    lines.append(f"  {each.better:,} jobs wait less, {each.worse:,} wait more" + _unpaired(each))
    lines.append("  " + divergence(baseline, each.policy, each.divergence, tick, begin, cut=cut))
    return "\n".join(lines)


def _signed(value: float) -> str:
    return f"{value:+,.2f}"


def _unpaired(each: Difference) -> str:
    return f", {each.unpaired:,} did not start under both" if each.unpaired else ""


def divergence(
    baseline: str, policy: str, found: Divergence | None, tick: float, begin: int = 0, *, cut: bool = False
) -> str:
    """The first decision in which they part, in one sentence, what happens first first; times count from `begin`."""
    if found is None:
        return f"They decide alike from beginning to {'where they were cut' if cut else 'end'}."
    said = [
        (found.first, _says(baseline, found.first, found.first_elsewhere, policy, tick, begin)),
        (found.second, _says(policy, found.second, found.second_elsewhere, baseline, tick, begin)),
    ]
    said.sort(key=lambda part: math.inf if part[0] is None else part[0].at)
    return f"They part at start {found.number:,} (seed {found.seed}): {'; '.join(text for _, text in said)}."


def _says(name: str, grant: Grant | None, elsewhere: int | None, other: str, tick: float, begin: int) -> str:
    if grant is None:
        return f"{name} starts nothing more"
    why = f" ({grant.reason})" if grant.reason else ""
    then = (
        "never" if elsewhere is None else "at the same time" if elsewhere == grant.at else _at(elsewhere, begin, tick)
    )
    number = f" in its decision {grant.decision:,}" if grant.decision else ""
    return (
        f"{name} starts {grant.job_id} on {grant.worker_id} {_at(grant.at, begin, tick)}{number}{why}, {other} {then}"
    )


def _at(at: int, begin: int, tick: float) -> str:
    """A time as people say it, and exactly where that is not the same."""
    seconds = (at - begin) * tick
    return f"after {span(seconds)}" + (f" ({seconds:,.3f} s)" if seconds >= 120 else "")
