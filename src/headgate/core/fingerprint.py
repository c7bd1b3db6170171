"""Fingerprints of content: enough to tell a repeat from a contradiction."""

from __future__ import annotations

import hashlib

import msgspec

from headgate.core.job import JobSpec

_encode = msgspec.msgpack.Encoder().encode


def digest(content: bytes) -> bytes:
    """A short fingerprint of bytes; nothing has none."""
    return hashlib.blake2b(content, digest_size=16).digest() if content else b""


def fingerprint(value: msgspec.Struct) -> bytes:
    """Bytes that are equal exactly where the values are."""
    return _encode(value)


def spec_digest(spec: JobSpec) -> bytes:
    """The fingerprint of a specification, for idempotency keys."""
    return digest(fingerprint(spec))
