"""Bearer tokens: who asks, and what that one may do. Kept hashed, as documents of the engine."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Literal, get_args

import msgspec

from headgate.core.commands import PutDocument
from headgate.core.errors import InvalidInput, InvalidSettings
from headgate.engine.aio import AsyncEngine
from headgate.server.problems import Forbidden, Unauthorized

Scope = Literal["submit", "work", "read", "policy:edit", "policy:activate", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
KIND = "token"
PREFIX = "hg"
_encode = msgspec.msgpack.Encoder().encode


class Token(msgspec.Struct, frozen=True):
    """What is kept of a token: never the secret itself."""

    id: str
    digest: bytes
    scopes: tuple[Scope, ...]
    tenant: str | None
    note: str
    created_at: int
    expires_at: int | None = None


class Caller(msgspec.Struct, frozen=True):
    """Who asks."""

    name: str
    scopes: frozenset[str]
    tenant: str | None = None

    def allow(self, scopes: tuple[Scope, ...], *, tenants: bool = True) -> None:
        """Raise `Forbidden` unless one of the scopes is the caller's own; `admin` may do everything."""
        if "admin" not in self.scopes and not self.scopes.intersection(scopes):
            raise Forbidden(f"the token needs the scope {' or '.join(scopes)}", scopes=list(scopes))
        if self.tenant is not None and not tenants:
            raise Forbidden("a token that is bound to a tenant may not do this", tenant=self.tenant)

    def sees(self, tenant: str) -> bool:
        """Whether what belongs to a tenant exists for this caller."""
        return self.tenant is None or self.tenant == tenant


ANYBODY = Caller("anybody", frozenset())
LOCAL = Caller("local", frozenset(SCOPES))
"""Whoever asks where authentication is off."""


def new_secret() -> str:
    """A token as its owner keeps it: a public id, then the secret."""
    return f"{PREFIX}_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"


def split(text: str) -> str:
    """The id inside a token; `Unauthorized` if it does not look like one."""
    parts = text.split("_", 2)
    if len(parts) != 3 or parts[0] != PREFIX or not parts[1] or len(parts[2]) < 32 or not text.isascii():
        raise Unauthorized("the bearer token is not valid")
    return parts[1]


def digest(text: str) -> bytes:
    """What is kept instead of the secret. It is long and random, so a plain hash cannot be searched."""
    return hashlib.sha256(text.encode()).digest()


def identify(documents: dict[tuple[str, str], bytes], text: str, now: int) -> Caller:
    """The caller behind a token; `Unauthorized` unless it is known, unaltered and not past its time."""
    id_ = split(text)
    body = documents.get((KIND, id_))
    token = None if body is None else read_token(body)
    known = token.digest if token is not None else bytes(32)
    same = hmac.compare_digest(known, digest(text))
    if token is None or not same or (token.expires_at is not None and token.expires_at <= now):
        raise Unauthorized("the bearer token is not valid")
    return Caller(token.id, frozenset(token.scopes), token.tenant)


def read_token(body: bytes) -> Token:
    """A token from its document."""
    return msgspec.msgpack.decode(body, type=Token)


async def keep_token(
    engine: AsyncEngine,
    text: str,
    scopes: tuple[Scope, ...],
    *,
    tenant: str | None = None,
    note: str = "",
    expires_at: int | None = None,
) -> Token:
    """Keep a token from now on."""
    if tenant is not None and "admin" in scopes:
        raise InvalidInput("an admin token cannot be bound to a tenant", field="tenant")
    token = Token(split(text), digest(text), scopes, tenant, note, engine.clock.now(), expires_at)
    await engine.do(PutDocument(KIND, token.id, _encode(token)))
    return token


async def admit_admin(engine: AsyncEngine, path: Path) -> str:
    """The admin token of a file, made on the first start and known to this engine from now on."""
    text = ensure_admin_token(path)
    try:
        identify(engine.read(lambda state: state.documents), text, engine.clock.now())
    except Unauthorized:
        await keep_token(engine, text, ("admin",), note="first admin token")
    return text


def ensure_admin_token(path: Path) -> str:
    """The token in a file that only its owner can read; the file is made where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return _write_token(path)
    with os.fdopen(handle, encoding="ascii") as file:
        if stat.S_IMODE(os.fstat(handle).st_mode) & 0o077:
            raise InvalidSettings(f"{path.name} can be read by others: chmod 600 it, or delete it", field="token_file")
        text = file.read().strip()
    try:
        split(text)
    except Unauthorized:
        raise InvalidSettings(f"{path.name} holds no token: delete it", field="token_file") from None
    return text


def _write_token(path: Path) -> str:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = new_secret()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text + "\n")
    return text
