"""Calls on tokens and the audit log."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.core import commands as c
from headgate.core.errors import Conflict, InvalidInput, NotFound
from headgate.core.job_input import LIMITS, text
from headgate.core.quantities import duration
from headgate.core.retention import Retention
from headgate.server import audit, strict, tokens
from headgate.server.records import read_after
from headgate.server.routing import Call, Reply, Routes
from headgate.server.service import Service
from headgate.wire import http as w

routes = Routes()


class TokenNotFound(NotFound):
    """There is no such token."""


class AuditQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to go on, and whose acts to list."""

    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    who: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


@routes.add("POST", "/v2/admin/tokens", "admin", body=w.TokenNewIn, replies={201: w.TokenOut}, audit=True)
async def create_token(service: Service, call: Call) -> Reply:
    """Make a bearer token; it is shown this once and kept only as a hash."""
    given = strict.read_as(call.body, w.TokenNewIn)
    if not given.scopes:
        raise InvalidInput("must name at least one scope", field="scopes")
    expires_at = None
    if given.expires_in is not None:
        expires_at = service.now() + _span(given.expires_in)
    secret = tokens.new_secret()
    token = await tokens.keep_token(
        service.engine,
        secret,
        tuple(dict.fromkeys(given.scopes)),
        tenant=None if given.tenant is None else text(given.tenant, "tenant", LIMITS),
        note=given.note[:256],
        expires_at=expires_at,
    )
    return Reply(msgspec.structs.replace(_shown(token), token=secret), 201)


def _span(given: float | str) -> int:
    span = duration(given, "expires_in")
    if span <= 0:
        raise InvalidInput("must be greater than zero", field="expires_in")
    return span


@routes.add("GET", "/v2/admin/tokens", "admin", replies={200: w.TokensOut})
async def list_tokens(service: Service, call: Call) -> Reply:
    """List tokens without their secrets."""
    bodies = [body for (kind, _), body in service.state.documents.items() if kind == tokens.KIND]
    found = sorted((tokens.read_token(body) for body in bodies), key=lambda token: (token.created_at, token.id))
    return Reply(w.TokensOut([_shown(token) for token in found]))


def _shown(token: tokens.Token) -> w.TokenOut:
    expires_at = None if token.expires_at is None else token.expires_at / 1000
    return w.TokenOut(token.id, list(token.scopes), token.tenant, token.note, token.created_at / 1000, expires_at)


@routes.add("DELETE", "/v2/admin/tokens/{id}", "admin", replies={204: None}, audit=True)
async def revoke_token(service: Service, call: Call) -> Reply:
    """Make a token worthless at once; not the one that asks."""
    if (tokens.KIND, call["id"]) not in service.state.documents:
        raise TokenNotFound(f"there is no token {call['id']!r}")
    if call["id"] == call.caller.name:
        raise Conflict("a token cannot revoke itself")
    await service.engine.do(c.PutDocument(tokens.KIND, call["id"], None))
    return Reply(b"", 204)


@routes.add("POST", "/v2/admin/compact", "admin", body=w.CompactIn, replies={200: w.CompactedOut}, audit=True)
async def compact(service: Service, call: Call) -> Reply:
    """Delete what is older than the given ages, while everything else goes on."""
    given = strict.read_as(call.body, w.CompactIn)
    ages = {name: duration(age, name) for name in given.__struct_fields__ if (age := getattr(given, name)) is not None}
    gone = await service.engine.compact(Retention(**ages))
    return Reply(w.CompactedOut(*gone))


@routes.add("GET", "/v2/admin/audit", "admin", query=AuditQuery, replies={200: w.AuditOut})
async def list_audit(service: Service, call: Call) -> Reply:
    """Who did what, oldest first."""
    asked: AuditQuery = call.query
    store = service.engine.writer.store
    rows = await service.aside(read_after, store, audit.KIND, asked.who, asked.after, asked.limit)
    entries = [w.AuditEntryOut(at=row.at / 1000, **audit.read_entry(row.body)) for row in rows]
    following = str(rows[-1].number) if len(rows) == asked.limit else None
    return Reply(w.AuditOut(entries, following))
