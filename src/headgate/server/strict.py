"""Strict JSON: what passes here holds no number, text or nesting that anything behind it could stumble over."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar

import msgspec

from headgate.core.errors import InvalidInput

T = TypeVar("T")
MAX_DEPTH = 64
_LARGEST, _SMALLEST = 2**64, -(2**63)
_ESCAPES = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_PLAIN = bytes(48 if 48 <= byte <= 57 else 101 if byte == 69 else byte for byte in range(256))
"""Every digit as 0 and E as e, so that long numbers and exponents are found by plain search."""
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_WHERE = re.compile(r"(.*) - at `(?:key in )?\$?\.?(.*)`")


class MalformedJson(InvalidInput):
    """The body is not JSON."""


def read_json(body: bytes) -> Any:
    """A document as plain values, after every check."""
    _check_text(body)
    value = _decoded(body, None)
    if _needs_a_walk(body):
        _walk(value)
    return value


def read_as(body: bytes, kind: type[T]) -> T:
    """A document as a type, after every check; parts that stay encoded are checked too."""
    _check_text(body)
    if _needs_a_walk(body):
        _walk(_decoded(body, None))
    value: T = _decoded(body, kind)
    return value


def _check_text(body: bytes) -> None:
    if not body:
        raise MalformedJson("the body is empty; JSON is expected")
    if body.isascii():
        return
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedJson(f"the body is not UTF-8 (byte {error.start})") from None


def _needs_a_walk(body: bytes) -> bool:
    return not _is_shallow(body) or _is_suspect(body)


def _is_suspect(body: bytes) -> bool:
    """What a decoder that skips over a part might let through: NUL, half a pair, long numbers, exponents."""
    if b"\\u" in body and _ESCAPES.search(body) is not None:
        return True
    plain = body.translate(_PLAIN)
    return b"0e" in plain or b"0" * 18 in plain


def _is_shallow(body: bytes) -> bool:
    """Whether the nesting is surely not too deep: what is left of the text without all but brackets folds away.

    Brackets inside strings may keep it from folding; then it has to be looked at in full.
    """
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return True
    brackets = body.translate(None, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        folded = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not folded:
            return True
        if len(folded) == len(brackets):
            return False
        brackets = folded
    return False


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Made once for a type: to make one costs more than a small document."""
    return msgspec.json.Decoder(Any if kind is None else kind)


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return _decoder(kind).decode(body)
    except msgspec.ValidationError as error:
        if kind is None:  # a number that no type can hold
            raise MalformedJson(str(error).partition(" - at")[0]) from None
        raise wrong_field(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedJson(str(error)) from None
    except RecursionError:
        raise MalformedJson("is nested too deeply") from None


def wrong_field(error: msgspec.ValidationError) -> InvalidInput:
    """What msgspec says of a field, as our own error."""
    found = _WHERE.fullmatch(str(error))
    if found is None:
        return InvalidInput(str(error))
    return InvalidInput(found[1], field=found[2] if found[2] != "[...]" else "")


def _walk(document: Any) -> None:
    """Level by level, so that no nesting is too deep to be looked at."""
    level, depth = [document], 0
    while level:
        if depth > MAX_DEPTH:
            raise MalformedJson(f"is nested more than {MAX_DEPTH} levels deep")
        below: list[Any] = []
        for value in level:
            _check_value(value)
            if isinstance(value, dict):
                for name in value:
                    _check_value(name)
                below += value.values()
            elif isinstance(value, list):
                below += value
        level, depth = below, depth + 1


def _check_value(value: Any) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise MalformedJson("contains a NUL character")
    elif isinstance(value, int) and not _SMALLEST <= value < _LARGEST:
        raise MalformedJson("contains an integer of more than 64 bits")
