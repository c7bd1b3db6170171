"""`headgate policy shadow` and `headgate policy experiment`: policies that are tried out on the live system."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from headgate.cli.api import connect, part
from headgate.cli.exits import DONE, USAGE, Failure
from headgate.cli.jobview import instant
from headgate.cli.output import age, emit, paint, pairs, table
from headgate.cli.sim_live import policy_given

BASE = "/v2/admin/scheduler"


def shadow(arguments: argparse.Namespace) -> int:
    """How the version that watches does."""
    answer = connect(arguments).get(f"{BASE}/shadow", version=arguments.version, recent=arguments.recent)
    emit(arguments, answer, _show_shadow)
    return DONE


def experiment(arguments: argparse.Namespace) -> int:
    """Start, look at or stop an experiment."""
    api, path = connect(arguments), f"{BASE}/experiments"
    if arguments.do == "start":
        body = {"split": arguments.split, "window": arguments.window, "why": arguments.why}
        body |= {"b": policy_given(_needed(arguments)), "a": policy_given(arguments.against)}
        answer = api.post(path, body)
    elif arguments.do == "stop":
        which = part(arguments.policy or "current")
        answer = api.post(f"{path}/{which}/stop", {"keep": arguments.keep, "why": arguments.why})
    else:
        answer = api.get(f"{path}/{part(arguments.policy or 'current')}")
    emit(arguments, answer, _show_experiment)
    return DONE


def _needed(arguments: argparse.Namespace) -> str:
    if not arguments.policy:
        raise Failure(USAGE, "start needs a policy to try: a file, a version or a template")
    return str(arguments.policy)


def _show_experiment(found: dict[str, Any]) -> None:
    state = "runs" if found["running"] else f"ended {instant(found['ended_at'])}: {found.get('ended_why')}"
    deciding = f"; arm {found['deciding']} decides now" if found.get("deciding") else ""
    pairs(
        [
            ("experiment", f"{found['id']} ({state}{deciding})"),
            ("a", found["a"]),
            ("b", found["b"]),
            ("split by", f"{found['split']}, windows of {age(found['window'])}"),
            ("since", instant(found["started_at"])),
            ("why", found.get("why")),
        ]
    )
    for arm in ("a", "b"):
        names = sorted(name for name, whose in found.get("assigned", {}).items() if whose == arm)
        pairs([(f"of arm {arm}", names)])
    if "results" in found:
        _show_results(found["results"])


def _show_results(results: dict[str, Any]) -> None:
    print()
    rows = [("jobs", *(f"{results[arm]['jobs']:,} ({results[arm]['waiting']:,} waiting)" for arm in "ab"), "")]
    for name, field in (("wait", "wait"), ("bounded slowdown", "slowdown"), ("utilisation", "utilisation")):
        shown = _seconds if field == "wait" else "{:.2%}".format if field == "utilisation" else "{:.2f}".format
        rows.append(
            (name, *(shown(results[arm][field]) for arm in "ab"), _difference(results.get(field), field, shown))
        )
    table(("", "a", "b", "b against a (95 % interval)"), rows)
    print(f"{results['blocks']:,} blocks compared")


def _seconds(value: float) -> str:
    return f"{value:,.1f} s"


def _difference(interval: dict[str, float] | None, field: str, shown: Callable[[float], str]) -> str:
    if interval is None:
        return "too few blocks yet"
    low, high = interval["low"], interval["high"]
    text = f"{shown(interval['mean'])} [{shown(low)}, {shown(high)}]"
    if low <= 0 <= high:
        return f"{text} no clear difference"
    good = (interval["mean"] < 0) != (field == "utilisation")
    return f"{text} " + (paint("better", "green") if good else paint("worse", "red"))


def _show_shadow(found: dict[str, Any]) -> None:
    agreement = found.get("agreement")
    pairs(
        [
            ("version", found["version"] + ("" if found["watching"] else " (watches no more)")),
            ("since", instant(found["since"])),
            ("decisions", f"{found['asked']:,}"),
            ("agrees", "nothing decided yet" if agreement is None else f"{found['agreed']:,} ({agreement:.1%})"),
            ("failures", found.get("failures")),
            ("takes", f"{found['shadow_us']:,.0f} us a decision; the one that decides {found['decided_us']:,.0f} us"),
        ]
    )
    first, recent = found.get("first"), found.get("recent") or []
    if first is not None:
        print(f"\n{paint('first difference', 'bold')}")
        _show_parting(first)
    if len(recent) > 1:
        print(f"\n{paint('last differences', 'bold')}")
        for parting in recent:
            _show_parting(parting)


def _show_parting(parting: dict[str, Any]) -> None:
    print(f"  {instant(parting['at'])}  decision {parting['decision']}")
    print(f"    {parting['decided_by']}: {_said(parting['actions'])}")
    print(f"    would have: {parting.get('failure') or _said(parting['shadow_actions'])}")


def _said(actions: list[dict[str, Any]]) -> str:
    return "; ".join(_action(action) for action in actions[:4]) + ("; ..." if len(actions) > 4 else "") or "nothing"


def _action(action: dict[str, Any]) -> str:
    words = [str(action.get("action"))]
    words += [str(action[name]) for name in ("job_id", "worker_id", "evict_worker_id") if action.get(name)]
    why = f" ({action['reason']})" if action.get("reason") else ""
    return " ".join(words) + why
