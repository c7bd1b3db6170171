"""`headgate policy` where one decision is looked at: debug, trace, profile."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from headgate.cli.api import connect, part
from headgate.cli.exits import DONE, FAILED, USAGE, Failure
from headgate.cli.options import server_options
from headgate.cli.output import emit, table
from headgate.core.errors import HeadgateError

if TYPE_CHECKING:
    from headgate.bootstrap.looking import Fetch, Looked


def options(action: argparse.ArgumentParser) -> None:
    """What all three take."""
    action.add_argument("what", nargs="?", metavar="DECISION|FILE", help="a recorded decision, or a .lua or .yaml file")
    action.add_argument(
        "--policy", "--file", metavar="FILE", help="this policy instead of the one that decided, on the same context"
    )
    action.add_argument(
        "--context", metavar="NAME", help="for a file: sample, sample:NUMBER or crowd:JOBS (default sample)"
    )
    action.add_argument("--workload", "-w", metavar="W", help="a decision of a simulation: a file, or a generator")
    action.add_argument("--number", type=int, default=1, metavar="N", help="which of its decisions (default 1)")
    action.add_argument("--jobs", type=int, default=1_000, metavar="N", help="of a generator (default 1000)")
    action.add_argument("--seed", type=int, default=0, metavar="N", help="of the simulation (default 0)")
    server_options(action)


def debug_options(action: argparse.ArgumentParser) -> None:
    """What debug takes beside that."""
    action.add_argument(
        "--port", type=int, metavar="N", help="wait for one client on this port (default: stdin, stdout)"
    )


def profile_options(action: argparse.ArgumentParser) -> None:
    """What profile takes beside that."""
    action.add_argument(
        "--decisions", type=int, metavar="N", help="how often to decide (default: about two seconds of it)"
    )


def debug(arguments: argparse.Namespace) -> int:
    """Be a debug adapter until the client leaves."""
    from headgate.bootstrap import looking

    if arguments.port is not None and not 0 <= arguments.port <= 65_535:
        raise Failure(USAGE, f"--port: {arguments.port} is not between 0 and 65535")
    fetch = _fetch(arguments)

    def told(decision: str) -> dict[str, Any]:
        try:
            return fetch(decision)
        except Failure as failure:  # for the editor, which stays
            raise HeadgateError(str(failure)) from failure

    opened = looking.opener(_looked(arguments), told)
    try:
        if arguments.port is None:
            looking.serve_streams(sys.stdin, sys.stdout, opened)
        else:
            looking.serve_port(arguments.port, opened, lambda text: print(text, file=sys.stderr, flush=True))
    except looking.ClientGone as gone:
        print(f"headgate policy debug: {gone}", file=sys.stderr)
        return FAILED
    return DONE


def trace(arguments: argparse.Namespace) -> int:
    """Every line of one decision; 1 where the recorded answer is not repeated."""
    from headgate.bootstrap import looking

    found = looking.trace(looking.subject(_looked(arguments), _fetch(arguments)))
    emit(arguments, looking.plain(found), lambda _: print("\n".join(looking.readable(found))))
    return FAILED if found.failure or (found.same is False and not arguments.policy) else DONE


def profile(arguments: argparse.Namespace) -> int:
    """Where the time goes."""
    from headgate.bootstrap import looking

    found = looking.profile(looking.subject(_looked(arguments), _fetch(arguments)), arguments.decisions)
    emit(arguments, looking.plain(found), _show_profile)
    return DONE


def _looked(arguments: argparse.Namespace) -> Looked:
    from headgate.bootstrap.looking import ENDINGS, Looked

    given = arguments
    is_file = given.what is not None and given.what.endswith(ENDINGS)
    decision = None if is_file or given.workload else given.what
    policy = given.policy or (given.what if is_file or given.workload else None)
    return Looked(decision, policy, given.context, given.workload, given.number, given.jobs, given.seed)


def _fetch(arguments: argparse.Namespace) -> Fetch:
    def fetch(decision: str) -> dict[str, Any]:
        found: dict[str, Any] = connect(arguments).get(f"/v2/admin/decisions/{part(decision)}/context")
        return found

    return fetch


def _show_profile(data: dict[str, Any]) -> None:
    print(f"{data['policy']}: {data['us_per_decision']:.1f} us a decision, {data['decisions']:,} decisions")
    print(f"measured by: {data['method']}; {data['samples']} samples\n")
    for title, rows in (("rule", data["rules"]), ("function", data["functions"])):
        if rows:
            shown = [(row["name"], *(f"{row[key]:.1%}" for key in ("total", "own", "helpers"))) for row in rows]
            table((title, "with all it calls", "itself", "in helpers"), shown)
            print()
