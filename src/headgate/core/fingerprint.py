"""Fingerprints of content: enough to tell a repeat from a contradiction."""

from __future__ import annotations

import hashlib

import msgspec

from headgate.core.events import Failure
from headgate.core.job import JobSpec

_encode = msgspec.msgpack.Encoder().encode


_SIZE = 16


def digest(content: bytes) -> bytes:
    """A short fingerprint of bytes. What is shorter than a fingerprint is its own."""
    return content if len(content) < _SIZE else hashlib.blake2b(content, digest_size=_SIZE).digest()


def said_of(failure: Failure) -> bytes:
    """The fingerprint of a failure; without an exit status it is what it was before there were any."""
    return _encode((failure.code, failure.message, failure.traceback) if failure.exit_status is None else failure)


def spec_digest(spec: JobSpec) -> bytes:
    """The fingerprint of a specification, for idempotency keys."""
    return digest(_encode(spec))
