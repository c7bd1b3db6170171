"""`headgate policy shadow` and `headgate policy experiment`: policies that are tried out on the live system."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect
from headgate.cli.exits import DONE
from headgate.cli.jobview import instant
from headgate.cli.output import emit, paint, pairs

BASE = "/v2/admin/scheduler"


def shadow(arguments: argparse.Namespace) -> int:
    """How the version that watches does."""
    answer = connect(arguments).get(f"{BASE}/shadow", version=arguments.version, recent=arguments.recent)
    emit(arguments, answer, _show_shadow)
    return DONE


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
