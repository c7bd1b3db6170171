"""Fingerprints of content: enough to tell a repeat from a contradiction."""

from __future__ import annotations

import hashlib

import msgspec

from headgate.core.job import JobSpec

_encode = msgspec.msgpack.Encoder().encode


_SIZE = 16


def digest(content: bytes) -> bytes:
    """A short fingerprint of bytes. What is shorter than a fingerprint is its own."""
    return content if len(content) < _SIZE else hashlib.blake2b(content, digest_size=_SIZE).digest()


def fingerprint(value: msgspec.Struct) -> bytes:
    """Bytes that are equal exactly where the values are."""
    return _encode(value)


def spec_digest(spec: JobSpec) -> bytes:
    """The fingerprint of a specification, for idempotency keys."""
    return digest(fingerprint(spec))
