"""Postgres as the home of the state: one fenced statement per commit, one leader, standbys that take over.

Needs psycopg 3 (the extra `postgres`). Importing this package does not; asking it for a store does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.ports import StoreUnavailable

if TYPE_CHECKING:
    from headgate.stores.postgres.dump import restore
    from headgate.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "restore"]

_HOMES = {"PostgresStore": "headgate.stores.postgres.store", "restore": "headgate.stores.postgres.dump"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import_module("psycopg")
    except ImportError as missing:
        message = "a Postgres database needs psycopg: install headgate with its extra, headgate[postgres]"
        raise StoreUnavailable(message) from missing
    return getattr(import_module(_HOMES[name]), name)
