"""The page of the HTTP API says what the route table says."""

from __future__ import annotations

import re
from pathlib import Path

from headgate.core import errors
from headgate.server import problems
from headgate.server.app import ROUTES
from headgate.server.live import TOPICS
from headgate.server.settings import ServerSettings
from headgate.server.tokens import SCOPES
from headgate.wire import stream

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text("utf-8")
_SIZES = {"MiB": 1 << 20, "s": 1}


def rows(pattern: str) -> list[tuple[str, ...]]:
    return re.findall(pattern, PAGE, re.MULTILINE)


def test_every_call_is_documented_as_it_is() -> None:
    found = rows(r"^\| `([A-Z]+) (/\S*)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$")
    documented = {(method, path): (scopes, answers, does) for method, path, scopes, answers, does in found}
    assert len(documented) == len(found)
    for route in ROUTES:
        scopes, answers, does = documented.pop((route.method, route.path))
        assert set(re.findall(r"`([^`]+)`", scopes)) == set(route.scopes), route.path
        assert [int(code) for code in answers.split(", ")] == (sorted(route.replies) or [101]), route.path
        assert does == route.summary.rstrip("."), route.path
    assert documented == {}


def test_every_kind_of_error_is_documented_with_its_status() -> None:
    documented = {name: int(status) for name, status in rows(r"^\| `([A-Z]\w+)` \| (\d{3}) \|")}
    told = {kind.__name__: status for kind, status in problems.STATUS.items() if kind is not problems.ClientGone}
    assert documented == told
    assert problems.status_of(errors.StaleLease()) == 409
    assert problems.status_of(RuntimeError()) == 500


def test_every_scope_topic_and_message_is_documented() -> None:
    assert [name for name, _ in rows(r"^\| `([a-z:]+)` \| ([^|]+) \|$")] == list(SCOPES)
    assert all(f"`{topic}`" in PAGE for topic in TOPICS)
    messages = {str(kind.__struct_config__.tag) for kind in stream.Message.__subclasses__()}
    assert all(f"`{name}`" in PAGE for name in messages)


def test_the_documented_limits_are_the_defaults() -> None:
    plain = ServerSettings()
    found = rows(r"^\| `([a-z]\w+)` \| (\d+)(?: (MiB|s))? \|")
    limits = {name: int(value) * _SIZES.get(unit, 1) for name, value, unit in found}
    assert len(limits) == 8
    for name, value in limits.items():
        assert getattr(plain, name) == value, name
