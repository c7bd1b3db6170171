"""The table of rooms in the docs is the contract that `make check` enforces."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTRANCES = {"__main__", "headgate"}


def enforced() -> dict[str, set[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(contract["rooms"] for contract in contracts if contract["id"] == "rooms")
    return {room: set(may.split()) for room, may in (row.split(":") for row in rows)}


def written() -> dict[str, set[str]]:
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    return {
        room: set(re.findall(r"`(\w+)`", may))
        for room, may in re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", page, re.MULTILINE)
    }


def test_the_docs_name_every_room_and_what_it_may_import() -> None:
    assert written() == {room: may for room, may in enforced().items() if room not in ENTRANCES}
