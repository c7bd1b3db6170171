"""Addresses as people write them, and what is said of those that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate.client.addresses import plain_address, server_address
from headgate.client.http import Http
from headgate.core.errors import InvalidInput, InvalidJob
from headgate.ports import StoreUnavailable
from headgate.testing import SeededChance


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("jobs.db", "jobs.db"),
        ("  jobs.db\n", "jobs.db"),
        (Path("a") / "b.db", "a/b.db"),
        (Path("localhost:8420"), "localhost:8420"),
        ("HTTP://Host:1/base", "http://Host:1/base"),
        ("https://headgate.example/", "https://headgate.example/"),
        ("http://[::1]:8420", "http://[::1]:8420"),
        ("memory://", "memory://"),
        ("postgresql://me:secret@db/x?sslmode=require", "postgresql://me:secret@db/x?sslmode=require"),
        ("sqlite:///var/x.db", "sqlite:///var/x.db"),
        ("backup:2024-01-01.db", "backup:2024-01-01.db"),
    ],
)
def test_what_names_a_place_is_taken_as_it_stands(given: Any, plain: str) -> None:
    assert plain_address(given) == plain


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "must not be empty"),
        (" ", "must not be empty"),
        ("a\0b", "printable"),
        (7, "must be text or a path, not int"),
        (b"jobs.db", "must be text or a path, not bytes"),
        ("localhost:8420", "did you mean 'http://localhost:8420'?"),
        ("127.0.0.1:8420", "did you mean 'http://127.0.0.1:8420'?"),
        ("http:/host:1", "did you mean 'http://host:1'?"),
        ("memory:", "did you mean 'memory://'?"),
        ("memory://mine", "takes no name"),
        ("http://", "such as http://127.0.0.1:8420"),
        ("http://host:99999", "Port out of range"),
        ("http://host:http", "is not the address of a server"),
        ("http://host:0", "is not the address of a server"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("http://a b", "is not the address of a server"),
        ("http://host/?a=b", "must end before"),
        ("http://host/#token=hg_secret", "the token is said apart from it"),
        ("http://me:secret@host", "must not carry a name or a password"),
    ],
)
def test_what_is_no_address_is_refused_with_what_was_meant(given: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        headgate.App(given)
    assert refused.value.field == "address"
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [("x" * 300 + ".db", "File name too long"), ("taken/new/jobs.db", "cannot make this directory: Not a directory")],
)
def test_a_file_that_cannot_be_there_is_a_typed_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    with pytest.raises(StoreUnavailable, match=said):
        headgate.App(given).status()


@pytest.mark.parametrize("given", [None, "01ARZ3", 7, {"a": 1}, [None]])
def test_dependencies_that_are_no_list_are_refused_by_name(given: Any) -> None:
    app = headgate.App("memory://", load=0)
    with pytest.raises(InvalidJob, match=r"^dependencies: must be a list of job ids"):
        app.submit(run={"kind": "external"}, dependencies=given)
    app.close()


def test_the_environment_is_named_where_it_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_URL", "localhost:8420")
    with pytest.raises(InvalidInput, match=r"^HEADGATE_URL: .*did you mean 'http://localhost:8420'"):
        headgate.App()
    monkeypatch.setenv("HEADGATE_URL", "")
    assert repr(headgate.App()) == "App('.headgate/headgate.db')"


@pytest.mark.parametrize("token", ["hg a", "hg\n", "hgé"])
def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Http("http://host", token, SeededChance(1))
    assert refused.value.field == "token"
    assert token not in str(refused.value)


def test_a_server_may_stand_below_a_path() -> None:
    assert server_address("https://host/headgate").path == "/headgate"
