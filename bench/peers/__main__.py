"""Headgate beside other job queues on the same work, in the same run.

python -m bench.peers                                  the short form, as in make bench
python -m bench.peers --jobs 10000 --rounds 3          what the documentation shows
python -m bench.peers --only headgate,huey,celery      some of them
python -m bench.peers --measures kill --within 60      all workers killed in mid-job
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys

from bench.peers.catalogue import ENTRIES, KILL, SPEED, UnknownPeer, chosen
from bench.peers.installing import Environment
from bench.peers.running import Log, Plan, Runner
from bench.peers.servers import Servers
from bench.peers.verdict import Verdict


def arguments() -> argparse.Namespace:
    """The command line."""
    known = (*SPEED, KILL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="queues or their forms, separated by commas; see --list")
    parser.add_argument("--measures", default=",".join(SPEED), help=f"some of {', '.join(known)}")
    parser.add_argument("--jobs", type=int, default=2_000, help="to submit and to drain")
    parser.add_argument("--samples", type=int, default=50, help="of the pick-up")
    parser.add_argument("--rounds", type=int, default=1, help="medians of so many")
    parser.add_argument("--within", type=float, default=20.0, help="seconds after which a drain or a rerun is left")
    parser.add_argument("--appendfsync", choices=["everysec", "always"], default="everysec", help="of Redis")
    parser.add_argument("--json", action="store_true", help="everything that was found, in place of the tables")
    parser.add_argument("--list", action="store_true", help="what can be measured")
    asked = parser.parse_args()
    asked.measures = tuple(word.strip() for word in asked.measures.split(","))
    for measure in asked.measures:
        if measure not in known:
            parser.error(f"--measures: {measure!r} is not one of {', '.join(known)}")
    try:
        asked.entries = chosen(asked.only)
    except UnknownPeer as error:
        parser.error(str(error))
    return asked


def main() -> None:
    """Measure and print."""
    asked = arguments()
    if asked.list:
        for entry in ENTRIES:
            print(f"{entry.name:24} {entry.title}")
        return
    environment = Environment()
    servers = Servers(environment, asked.appendfsync)
    plan = Plan(asked.measures, asked.jobs, asked.samples, asked.rounds, asked.within)
    try:
        log = Runner(plan, environment, servers).run(asked.entries)
    finally:
        servers.close()
    verdict = Verdict(log)
    if asked.json:
        print(json.dumps(as_json(asked, log, verdict), indent=1))
    else:
        show(asked, log, verdict)


def show(asked: argparse.Namespace, log: Log, verdict: Verdict) -> None:
    """The tables, with what the machine was like."""
    for table in (verdict.speed(), verdict.kills(), verdict.goals()):
        if table.rows:
            table.show()
    print(f"{asked.jobs:,} jobs, {asked.samples} samples, median of {asked.rounds}")
    idle = f"{statistics.median(log.idle_syncs_ms):.3f} ms after pauses like those between pick-ups"
    print(f"load average {min(log.loads):.1f} to {max(log.loads):.1f}")
    print(f"fdatasync p50 {verdict.sync_ms:.3f} ms, {idle}")
    print(f"Redis with appendfsync {asked.appendfsync}; Postgres, SQLite and Headgate with their durable defaults")
    for name, reason in log.skipped.items():
        print(f"SKIPPED {name}: {reason}", file=sys.stderr)


def as_json(asked: argparse.Namespace, log: Log, verdict: Verdict) -> dict[str, object]:
    """Everything, for a program."""
    checks = [
        {"goal": check.label, "ratio": check.value, "wanted": check.goal.text, "met": check.goal.met}
        for check in verdict.checks()
    ]
    return {
        "jobs": asked.jobs,
        "samples": asked.samples,
        "rounds": asked.rounds,
        "appendfsync": asked.appendfsync,
        "load_average": log.loads,
        "fdatasync_p50_ms": log.syncs_ms,
        "fdatasync_p50_idle_ms": log.idle_syncs_ms,
        "figures": log.figures,
        "goals": checks,
        "skipped": log.skipped,
    }


if __name__ == "__main__":
    main()
