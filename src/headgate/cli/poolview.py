"""What commands show of pools."""

from __future__ import annotations

from typing import Any

from headgate.cli.output import age, paint, rating, table

_COLOURS = {"online": "green", "degraded": "yellow", "offline": "red"}


def show_pools(pools: list[dict[str, Any]]) -> None:
    """A line for each pool, and what its machine complains of."""
    from headgate.bootstrap.machine import now_ms

    now = now_ms() / 1000
    table(
        ("pool", "node", "status", "busy", "units", "gpus", "workers", "reported"), [_row(pool, now) for pool in pools]
    )
    for pool in pools:
        for reason in pool.get("reasons", []):
            print(paint(f"  {pool['id']}: {reason}", "yellow"))


def _row(pool: dict[str, Any], now: float) -> tuple[Any, ...]:
    busy, units, heard = pool.get("busy"), pool.get("units"), pool.get("last_report")
    return (
        pool["id"],
        pool.get("node"),
        paint(pool["status"], _COLOURS.get(pool["status"])),
        None if busy is None else rating(busy),
        None if units is None else f"{pool.get('leased_units', 0)} of {pool.get('usable_units', 0)} ({units})",
        len(pool.get("gpus", [])),
        len(pool.get("workers", [])),
        "never" if heard is None else f"{age(now - heard)} ago",
    )
