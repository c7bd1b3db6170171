"""A report as one HTML file: no script, no network, both colour schemes, charts inline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from headgate.sim import svg
from headgate.sim.charts import charts, difference_charts
from headgate.sim.compare import Comparison
from headgate.sim.results import Results
from headgate.sim.text import begin_of, divergence, remarks, span, summary_rows

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --paper: #fff; --faint: #d9dee4; --soft: #6b7683; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #14181d; --faint: #2c343d; --soft: #93a0ad; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 900px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--faint); }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; height: auto; } .note { color: var(--soft); }
.key span { display: inline-block; margin-right: 1.2rem; }
.key i { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; border-radius: 2px; }
"""
_SOFT = ".tick, .label { fill: var(--soft); }"  # after the charts' own style: a page knows whether it is dark
_KEY = "".join(f".key i.s{n} {{ background: {colour}; }}" for n, colour in enumerate(svg.COLOURS))


def report(title: str, runs: Sequence[Results], compared: Comparison | None = None) -> str:
    """The page for one run or several."""
    parts = [f"<h1>{escape(title)}</h1>", _table(runs)]
    parts += [f'<p class="note">Note: {escape(remark)}.</p>' for remark in remarks(runs)]
    if compared is not None:
        parts += _differences(compared)
    parts += [_key([results.policy for results in runs]), *_charts(runs)]
    parts += [_tenants(results) for results in runs if len(results.tenants) > 1]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{_KEY}{svg.STYLE}{_SOFT}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def write_report(path: str | Path, runs: Sequence[Results], compared: Comparison | None = None) -> None:
    """Write the page."""
    title = f"{', '.join(results.policy for results in runs)} on {runs[0].workload}"
    Path(path).write_text(report(title, runs, compared), "utf-8")


def compare_report(path: str | Path, compared: Comparison) -> None:
    """The page for a comparison: the first seed in the charts, all seeds in the differences."""
    write_report(path, [compared.runs[name][0] for name in compared.policies], compared)


def _table(runs: Sequence[Results]) -> str:
    columns = [dict(summary_rows(results)) for results in runs]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    head = "".join(f"<th>{escape(results.policy)}</th>" for results in runs)
    body = "".join(
        f"<tr><td>{escape(label)}</td>"
        + "".join(f"<td>{escape(column.get(label, ''))}</td>" for column in columns)
        + "</tr>"
        for label in labels
    )
    return f"<table><thead><tr><th>{escape(runs[0].workload)}</th>{head}</tr></thead><tbody>{body}</tbody></table>"


def _key(names: Sequence[str]) -> str:
    marks = "".join(f'<span><i class="s{n % 8}"></i>{escape(name)}</span>' for n, name in enumerate(names))
    return f'<p class="key">{marks}</p>'


def _differences(compared: Comparison) -> list[str]:
    base = compared.policies[0]
    parts = [f"<h2>Against {escape(base)}, job by job</h2>"]
    parts += [chart.svg for chart in difference_charts(compared)]
    tick, begin = compared.runs[base][0].tick, begin_of(compared.runs[base][0])
    cut = any(run.cut for runs in compared.runs.values() for run in runs)
    for each in compared.differences:
        said = escape(divergence(base, each.policy, each.divergence, tick, begin, cut=cut))
        wait = each.intervals["wait"]
        parts.append(
            f"<p><b>{escape(each.policy)}</b>: {escape(span(wait.mean))} of wait a job "
            f"(95 % interval {escape(span(wait.low))} to {escape(span(wait.high))}); "
            f"{each.better:,} jobs wait less, {each.worse:,} more. {said}</p>"
        )
    parts.append('<p class="note">Intervals by a block bootstrap over jobs in order of submission.</p>')
    return parts


def _charts(runs: Sequence[Results]) -> list[str]:
    return [f"<h2>{escape(chart.heading)}</h2>{chart.svg}" for chart in charts(runs)]


def _tenants(results: Results) -> str:
    head = "<tr><th>tenant</th><th>jobs</th><th>mean wait</th><th>mean slowdown</th><th>unit hours</th></tr>"
    busiest = sorted(results.tenants.items(), key=lambda item: (-item[1].unit_seconds, item[0]))[:50]
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{group.jobs:,}</td><td>{escape(span(group.mean_wait))}</td>"
        f"<td>{group.mean_slowdown:,.2f}</td><td>{group.unit_seconds / 3600:,.1f}</td></tr>"
        for name, group in busiest
    )
    return f"<h2>Tenants: {escape(results.policy)}</h2><table><thead>{head}</thead><tbody>{rows}</tbody></table>"
