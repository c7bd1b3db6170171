"""One value: from YAML or from text to the type of its key, with units where the key has one."""

from __future__ import annotations

import re
import types
import typing
from typing import Any

import msgspec

from headgate.config.keys import Key
from headgate.config.schema import DURATIONS, FOREVER, SECONDS, SIZES
from headgate.core.errors import InvalidInput
from headgate.core.quantities import duration, size
from headgate.policy.rules.diagnostics import Notes
from headgate.policy.rules.tree import Limits, compose, data


class ValueRefused(ValueError):
    """The value does not fit its key."""


def read_value(key: Key, value: Any) -> Any:
    """A value as the file gave it."""
    value = _without_unit(key, value)
    try:
        return msgspec.convert(value, key.kind)
    except msgspec.ValidationError as error:
        choices = ", ".join(_choices(key.kind))
        message = f"Expected one of {choices}" if choices and isinstance(value, str) else str(error)
        raise ValueRefused(_said(message, value)) from None


def read_text(key: Key, text: str) -> Any:
    """A value as the environment or a flag gave it: a text, read as YAML unless the key wants text."""
    if not _wants_text(key.kind):
        return read_value(key, _parsed(text))
    empty = text == "" and type(None) in typing.get_args(key.kind)
    return read_value(key, None if empty else text)


def _without_unit(key: Key, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        if key.name in DURATIONS and value == FOREVER and type(None) in typing.get_args(key.kind):
            return None
        if key.name in DURATIONS:
            negative = value.startswith("-")
            amount = duration(value.removeprefix("-"), key.name)
            return -amount if negative else amount
        if key.name in SECONDS:
            return duration(value, key.name) / 1000
        if key.name in SIZES:
            return size(value, key.name)
    except InvalidInput as error:
        raise ValueRefused(str(error).partition(": ")[2]) from None
    return value


def _wants_text(kind: Any) -> bool:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return all(_wants_text(part) for part in typing.get_args(kind) if part is not type(None))
    return kind is str or (typing.get_origin(kind) is typing.Literal)


def _choices(kind: Any) -> list[str]:
    """What may be written for a key that takes certain words, and what else it takes."""
    if typing.get_origin(kind) is typing.Literal:
        return [str(word) for word in typing.get_args(kind)]
    found = [_choices(part) for part in typing.get_args(kind)]
    if not any(found):
        return []
    return [word for part, words in zip(typing.get_args(kind), found, strict=True) for word in words or [part.__name__]]


def _parsed(text: str) -> Any:
    notes = Notes(text)
    node = compose(text, notes, Limits(max_bytes=65_536)) if text.strip() else None
    if notes.failed:
        raise ValueRefused(notes.found[0].message)
    return None if node is None else data(node)


_WORDS = {"Expected": "must be", "int": "a whole number", "bool": "true or false", "str": "text", "float": "a number"}


def _said(message: str, value: Any) -> str:
    """What the decoder said, in words for people."""
    text = message.partition(" - at ")[0].replace("`", "")
    for word, plain in _WORDS.items():
        text = re.sub(rf"\b{word}\b", plain, text)
    shown = repr(value) if len(repr(value)) < 60 else type(value).__name__
    return f"{text[0].lower()}{text[1:]} (given: {shown})"
