"""The page about the configuration is held against the keys that there are."""

import json
from pathlib import Path

import msgspec

from headgate.config.keys import RESERVED, known_keys

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def rows(header: str) -> dict[str, str]:
    """First and second cell of the tables whose first column has that name."""
    found: dict[str, str] = {}
    inside = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == header:
            inside = True
        elif inside and not set(line) <= set("|- "):
            found[cells[0]] = cells[1]
    return found


def test_every_key_is_documented_with_its_default() -> None:
    keys = {key.name: key for key in known_keys().values() if key.path[0] != "core"}
    documented = rows("key")
    assert list(documented) != []
    assert sorted(documented) == sorted(keys)
    defaults = {name: json.loads(msgspec.json.encode(key.default)) for name, key in keys.items()}
    assert {name: json.loads(text) for name, text in documented.items()} == defaults


def test_every_variable_that_is_no_key_is_documented() -> None:
    documented = [name.strip("`") for cell in rows("variable") for name in cell.split(", ")]
    assert sorted(documented) == sorted(RESERVED)
