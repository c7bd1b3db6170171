"""`headgate sim`: policies on workloads, before they go live. Only `whatif` needs a server: the one it asks about."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.cli import sim_live
from headgate.cli.exits import DONE
from headgate.cli.frame import subcommands
from headgate.cli.options import json_option, server_options
from headgate.cli.output import emit
from headgate.cli.progress import progress

if TYPE_CHECKING:
    from headgate.bootstrap.simulating import Asked

EXAMPLES = """
headgate sim run easy-backfill --workload KTH-SP2.swf.gz      one policy on a log
headgate sim compare platform my.yaml --workload lublin --report report.html
headgate sim compare fcfs platform --workload log.swf --scale 2   with twice the machine
headgate sim whatif my.yaml --for 2h                          what if I deploy this now?
headgate sim whatif --without-pool rack-2 --load 1.5          what if a pool fails while more comes?
headgate sim generate daily --jobs 5000 --output daily.jsonl  a workload by formula
headgate sim import .headgate/headgate.db --database --output mine.jsonl
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    actions = subcommands(parser)
    run = actions.add("run", "simulate one policy")
    run.add_argument("policy", metavar="POLICY", help="platform, a template, native:fcfs, or a .lua or .yaml file")
    run.add_argument("--seed", type=int, default=0, metavar="N", help="of everything left to chance (default 0)")
    run.add_argument("--csv", metavar="FILE", help="write one row a job")
    run.add_argument("--parquet", metavar="FILE", help="the same as Parquet; needs headgate[parquet]")
    run.set_defaults(run=_run)
    compare = actions.add("compare", "simulate several policies on the same jobs and say how they differ")
    compare.add_argument("policies", nargs="+", metavar="POLICY", help="the first is the one to compare with")
    compare.add_argument("--seeds", type=int, default=1, metavar="N", help="how many seeds to run (default 1)")
    compare.set_defaults(run=_compare)
    for action in (run, compare):
        _workload_options(action)
        action.add_argument(
            "--limit", metavar="TIME", help="cut a run that takes longer, such as 30s; the rest is shown"
        )
        action.add_argument("--report", metavar="FILE", help="write a page with charts that opens without a network")
        action.add_argument("--svg", metavar="DIR", help="write every chart as a file of its own")
        action.add_argument("--png", metavar="DIR", help="the same as pictures; needs headgate[png]")
        action.add_argument("--open", action="store_true", help="open the page in the browser")
    generate = actions.add("generate", "make a workload by formula")
    generate.add_argument("model", metavar="MODEL", help="poisson, bursty, daily, lublin, heavy or llm")
    generate.add_argument("--jobs", type=int, default=1_000, metavar="N", help="how many (default 1000)")
    generate.add_argument("--processors", type=int, default=64, metavar="N", help="of the machine (default 64)")
    generate.add_argument("--load", type=float, default=0.7, metavar="SHARE", help="of the machine (default 0.7)")
    generate.add_argument("--tenants", type=int, default=1, metavar="N", help="how many (default 1)")
    generate.add_argument("--seed", type=int, default=0, metavar="N", help="another one, another workload")
    generate.set_defaults(run=_generate)
    convert = actions.add("import", "convert a log, a trace or a database into the format of our own")
    convert.add_argument("source", metavar="SOURCE", help="a file, or with --database a database")
    convert.add_argument("--format", metavar="NAME", help="of the file, where its name and first line do not tell")
    convert.add_argument("--database", action="store_true", help="SOURCE is a database of Headgate's")
    convert.add_argument("--since", metavar="TIME", help="jobs submitted from then on, ISO 8601")
    convert.add_argument("--until", metavar="TIME", help="jobs submitted before then, ISO 8601")
    convert.set_defaults(run=_import)
    for action in (generate, convert):
        action.add_argument("--output", "-o", required=True, metavar="FILE", help="where to write it")
    for action in actions.all:
        json_option(action)
    whatif = actions.add("whatif", "fork the live state of a server: what would happen from now on")
    sim_live.configure(whatif)
    server_options(whatif)


def _workload_options(action: argparse.ArgumentParser) -> None:
    action.add_argument("--workload", "-w", required=True, metavar="W", help="a file, or the name of a generator")
    action.add_argument("--format", metavar="NAME", help="of the file, where its name and first line do not tell")
    action.add_argument("--jobs", type=int, default=1_000, metavar="N", help="of a generator (default 1000)")
    action.add_argument("--processors", type=int, metavar="N", help="of the machine, where the workload names none")
    action.add_argument("--load", type=float, metavar="X", help="of a generator; for a file, X times as fast")
    action.add_argument("--scale", type=float, default=1.0, metavar="X", help="X times the machine")
    action.add_argument(
        "--without-pool", action="append", default=[], metavar="POOL", help="without a pool; may be repeated"
    )


def _asked(arguments: argparse.Namespace) -> Asked:
    from headgate.bootstrap.simulating import Asked

    given = arguments
    pools = tuple(given.without_pool)
    return Asked(
        given.workload, given.format, given.jobs, given.processors, given.load, given.scale, pools, given.limit
    )


def _run(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap import simulating

    outputs = (arguments.csv, arguments.report)
    simulating.refuse_unwritable(outputs, parquet=arguments.parquet, png=arguments.png)
    with progress(f"simulating {arguments.policy}", 1.0) as advance:
        results = simulating.run(_asked(arguments), arguments.policy, arguments.seed, advance)
    if arguments.csv:
        simulating.write_csv(results, arguments.csv)
    if arguments.parquet:
        simulating.write_parquet(results, arguments.parquet)
    if arguments.report:
        simulating.write_report(arguments.report, [results])
    simulating.draw(results, arguments.svg, arguments.png)
    emit(arguments, simulating.plain(results), lambda _: _show(arguments, simulating.summary(results)))
    return DONE


def _compare(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap import simulating

    simulating.refuse_unwritable((arguments.report,), png=arguments.png)
    with progress("simulating", 1.0) as advance:
        compared = simulating.compare(_asked(arguments), arguments.policies, arguments.seeds, advance)
    if arguments.report:
        simulating.compare_report(arguments.report, compared)
    simulating.draw(compared, arguments.svg, arguments.png)
    emit(arguments, simulating.plain_comparison(compared), lambda _: _show(arguments, simulating.comparison(compared)))
    return DONE


def _show(arguments: argparse.Namespace, text: str) -> None:
    """The figures, and where the page is."""
    print(text)
    if arguments.report:
        print(f"\nreport: {arguments.report}")
        if arguments.open:
            webbrowser.open(Path(arguments.report).absolute().as_uri())


def _generate(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap import simulating

    shape = simulating.Shape(
        jobs=arguments.jobs, processors=arguments.processors, load=arguments.load, tenants=arguments.tenants
    )
    made = simulating.generate(arguments.model, arguments.seed, shape, arguments.output)
    text = f"{len(made):,} jobs written to {arguments.output}"
    emit(arguments, {"ok": True, "jobs": len(made), "output": arguments.output}, lambda _: print(text))
    return DONE


def _import(arguments: argparse.Namespace) -> int:
    from headgate.bootstrap import simulating

    made = simulating.convert(
        arguments.source, arguments.output, arguments.format,
        database=arguments.database, since=arguments.since, until=arguments.until,
    )  # fmt: skip
    said = {"ok": True, "jobs": len(made), "output": arguments.output, "problems": made.problems.counts}
    lines = [f"{len(made):,} jobs written to {arguments.output}"]
    lines += [f"problem: {line}" for line in made.problems.summary().splitlines()]
    emit(arguments, said, lambda _: print("\n".join(lines)))
    return DONE
