"""`headgate policy decisions`: the decisions that a server has recorded, which debug, trace and profile look into."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect
from headgate.cli.exits import DONE, USAGE, Failure
from headgate.cli.jobview import instant as moment
from headgate.cli.options import server_options
from headgate.cli.output import emit, paint, table
from headgate.core.quantities import instant


def options(action: argparse.ArgumentParser) -> None:
    """Which decisions to list."""
    action.add_argument("--job", metavar="ID", help="only those that name this job")
    action.add_argument("--action", metavar="NAME", help="only those with such an action: dispatch, wait, evict, ...")
    action.add_argument("--version", metavar="VERSION", help="only those of a version, or platform")
    action.add_argument("--failed", action="store_true", help="only those where a policy failed")
    action.add_argument("--since", metavar="TIME", help="from then on, ISO 8601 or seconds since 1970")
    action.add_argument("--until", metavar="TIME", help="before then, ISO 8601 or seconds since 1970")
    action.add_argument("--limit", "-n", type=int, default=20, metavar="N", help="how many (default 20)")
    action.add_argument("--oldest", action="store_true", help="from the first on instead of from the last back")
    server_options(action)


def decisions(arguments: argparse.Namespace) -> int:
    """Recorded decisions, the last ones first: where the ids for the other commands come from."""
    if arguments.limit < 1:
        raise Failure(USAGE, "--limit: must be at least 1")
    api = connect(arguments)
    wanted: dict[str, Any] = {
        "order": "oldest" if arguments.oldest else "newest", "job": arguments.job, "action": arguments.action,
        "version": arguments.version, "failed": "true" if arguments.failed else None,
        "since": _seconds(arguments.since, "since"), "until": _seconds(arguments.until, "until"),
    }  # fmt: skip
    found, place = list[dict[str, Any]](), None
    while len(found) < arguments.limit:
        page = api.get("/v2/admin/decisions", **wanted, after=place, limit=min(1_000, arguments.limit - len(found)))
        found += page["decisions"]
        place = page.get("next")
        if place is None:
            break
    emit(arguments, {"decisions": found}, _show_decisions)
    return DONE


def _seconds(given: str | None, field: str) -> float | None:
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        return instant(given, field) / 1000


def _show_decisions(data: dict[str, Any]) -> None:
    rows = [
        (each["id"], moment(each["at"]), each.get("attempted") or each["version"], _took(each), _said(each))
        for each in data["decisions"]
    ]
    table(("decision", "at", "version", "took", "what it said"), rows)


def _took(decision: dict[str, Any]) -> str:
    return f"{decision.get('took_us', 0):,} us"


def _said(decision: dict[str, Any]) -> str:
    """The first answer, how many more there are, and what went wrong."""
    actions, refused = decision["actions"], decision.get("refused", [])
    first = actions[0] if actions else {"action": "nothing"}
    target = " on ".join(str(first[name]) for name in ("job_id", "worker_id") if first.get(name))
    words = [" ".join(filter(None, [str(first["action"]), target]))]
    words += [f"({first['reason']})"] if first.get("reason") else []
    words += [f"and {len(actions) - 1} more"] if len(actions) > 1 else []
    words += [paint(f"{len(refused)} refused: {refused[0]['code']}", "yellow")] if refused else []
    if decision.get("failure"):
        words.append(paint(f"failed ({decision['failure']}): {decision['message']}", "red"))
    return " ".join(words)
