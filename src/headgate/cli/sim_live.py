"""`headgate sim whatif`: the live state of a server, forked into a simulation there."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from headgate.cli.api import Api, Refusal, connect, part
from headgate.cli.exits import DONE, FAILED, Failure
from headgate.cli.output import emit
from headgate.cli.progress import progress

BASE = "/v2/admin/scheduler/simulate"
_EACH = 20.0
"""Seconds of one long poll."""


def configure(whatif: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    whatif.add_argument("policy", nargs="?", default="active", metavar="POLICY",
                        help="a file, a version, a template or platform (default: what decides now)")  # fmt: skip
    whatif.add_argument("--against", metavar="POLICY", help="what to compare with (default: what decides now)")
    whatif.add_argument("--for", dest="horizon", default="1h", metavar="TIME", help="how far to look (default 1h)")
    whatif.add_argument("--arrivals", choices=("recent", "none"), default="recent",
                        help="whether jobs come as they did lately (default), or no more")  # fmt: skip
    whatif.add_argument("--scale", type=float, default=1.0, metavar="X", help="with X times the machines")
    whatif.add_argument("--without-pool", action="append", default=[], metavar="POOL",
                        help="without a pool; may be repeated")  # fmt: skip
    whatif.add_argument("--load", type=float, default=1.0, metavar="X", help="with jobs coming X times as fast")
    whatif.add_argument("--seeds", type=int, default=1, metavar="N", help="how many futures to draw (default 1)")
    whatif.set_defaults(run=whatif_run)


def whatif_run(arguments: argparse.Namespace) -> int:
    """Ask, follow, show."""
    from headgate.bootstrap.simulating import outcome_text

    api = connect(arguments)
    changes = {"scale": arguments.scale, "without_pools": arguments.without_pool, "load": arguments.load}
    asked: dict[str, Any] = {
        "policy": policy_given(arguments.policy),
        "workload": {"kind": "live", "arrivals": arguments.arrivals},
        "horizon": arguments.horizon,
        "changes": changes,
        "seeds": arguments.seeds,
    }
    if arguments.against:
        asked["against"] = policy_given(arguments.against)
    try:
        run = api.post(BASE, asked)
    except Refusal as refusal:
        for note in refusal.problem.get("diagnostics", []):
            print(f"{arguments.policy}:{note['line']}:{note['column']}: {note['message']}", file=sys.stderr)
        raise
    found = _followed(api, run)
    emit(arguments, found["outcome"], lambda data: print(outcome_text(data)))
    return DONE


def policy_given(given: str) -> dict[str, str]:
    """A file becomes a draft; anything else is a name that the server knows."""
    from headgate.bootstrap.policy_files import ENDINGS, read_policy

    path = Path(given)
    if path.suffix not in ENDINGS:
        return {"name": given}
    language, source = read_policy(path)
    return {"name": path.stem, "language": language, "source": source}


def _followed(api: Api, run: dict[str, Any]) -> dict[str, Any]:
    """Wait for the end; whoever goes away ends the simulation too."""
    path = f"{BASE}/runs/{part(run['id'])}"
    try:
        with progress("simulating", 1.0) as advance:
            while run["state"] in ("starting", "running"):
                advance(run["progress"])
                run = api.get(path, wait_s=0.5 if sys.stderr.isatty() else _EACH)
    except KeyboardInterrupt:
        api.post(f"{path}/cancel")
        raise
    if run["state"] != "done":
        raise Failure(FAILED, run.get("problem", {}).get("detail") or f"the simulation was {run['state']}")
    return run
