"""The JSON Schema of the YAML document, for editors and other tools; the parser says more, and where."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


def schema() -> dict[str, Any]:
    """A fresh copy of the schema."""
    loaded: dict[str, Any] = json.loads(_text())
    return loaded


@cache
def _text() -> str:
    return files(__package__).joinpath("schema.json").read_text("utf-8")
