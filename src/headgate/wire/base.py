"""What every body of the HTTP API has in common, and problems."""

from __future__ import annotations

from typing import Any

import msgspec

Json = Any
NULL = msgspec.Raw(b"null")
EMPTY = msgspec.Raw(b"{}")


def null() -> msgspec.Raw:
    """The value of a field that was left out."""
    return NULL


def empty() -> msgspec.Raw:
    """The same for an object."""
    return EMPTY


class Body(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request's body: unknown fields are refused."""


class Out(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of an answer: clients ignore what they do not know."""


class Problem(Out, frozen=True):
    """RFC 9457, as `application/problem+json`; `code` is stable and machine-readable (see reference/errors)."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    field: str = ""
    retry_after_ms: int | None = None
    extra: dict[str, Json] = {}
