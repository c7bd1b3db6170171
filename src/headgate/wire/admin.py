"""Tokens, the audit and upkeep on the wire."""

from __future__ import annotations

from typing import Literal

from headgate.wire.base import Body, Out


class TokenNewIn(Body, frozen=True):
    """A new bearer token; one that is bound to a tenant sees and does nothing beyond it."""

    scopes: list[Literal["submit", "work", "read", "policy:edit", "policy:activate", "admin"]]
    tenant: str | None = None
    note: str = ""
    expires_in: float | str | None = None
    """Seconds, or a text such as '90d'."""


class TokenOut(Out, frozen=True):
    """A bearer token; `token` is shown once, when it is made."""

    id: str
    scopes: list[str]
    tenant: str | None = None
    note: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    token: str | None = None


class TokensOut(Out, frozen=True):
    """All tokens, without their secrets."""

    tokens: list[TokenOut]


class AuditEntryOut(Out, frozen=True):
    """Who did what."""

    at: float
    who: str
    call: str
    target: dict[str, str]
    status: int
    remote: str = ""
    code: str = ""


class AuditOut(Out, frozen=True):
    """The audit log, oldest first; `next` continues."""

    entries: list[AuditEntryOut]
    next: str | None = None


class CompactIn(Body, frozen=True):
    """Ages from which on things are deleted: seconds, or texts such as '30d'. What is not named stays."""

    jobs: float | str | None = None
    keys: float | str | None = None
    events: float | str | None = None
    decisions: float | str | None = None
    load: float | str | None = None
    audit: float | str | None = None
    logs: float | str | None = None


class CompactedOut(Out, frozen=True):
    """How much was deleted."""

    jobs: int
    histories: int
    journal: int
    records: int
