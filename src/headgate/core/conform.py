"""Records made by hand, past every parser: each field is of its type and every number finite, or the field is named."""

from __future__ import annotations

import functools
import math
import re
import typing
from typing import Any, TypeVar

import msgspec

from headgate.core.errors import InvalidInput
from headgate.core.quantities import LARGEST

S = TypeVar("S", bound=msgspec.Struct)
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_EXPECTED = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")


def conform(record: S, error: type[InvalidInput] = InvalidInput) -> S:
    """The record as its types have it (a list where a tuple belongs is one); refuse what is of another type."""
    try:
        return _record(record, "")
    except InvalidInput as found:
        if isinstance(found, error):
            raise
        raise error(str(found).partition(": ")[2] or str(found), field=found.field) from None


def _record(record: S, path: str) -> S:
    """Field by field, since a whole record that is a record already would be believed as it stands."""
    changed: dict[str, Any] = {}
    for name, kind in _types(type(record)):
        value = getattr(record, name)
        found = _value(value, kind, f"{path}{name}")
        if found is not value:
            changed[name] = found
    return msgspec.structs.replace(record, **changed) if changed else record


@functools.cache
def _types(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """The fields of a record with their types: finding them out takes a thousand times as long as a look at one."""
    return tuple((field.name, field.type) for field in msgspec.structs.fields(kind))


def _value(value: Any, kind: Any, path: str) -> Any:
    if isinstance(value, msgspec.Struct):
        _convert(value, kind, path)
        return _record(value, f"{path}.")
    if isinstance(value, dict) and typing.get_origin(kind) is dict:
        of_key, of_item = typing.get_args(kind)
        return {_convert(key, of_key, path): _value(item, of_item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(item, msgspec.Struct) for item in value):
        of_item = typing.get_args(kind)[0]
        return tuple(_value(item, of_item, f"{path}[{place}]") for place, item in enumerate(value))
    if isinstance(value, set | frozenset):
        raise InvalidInput("must be a list, not a set", field=path)
    found = _convert(value, kind, path)
    _check_numbers(found, path)
    return value if type(found) is type(value) and found == value else found


def _convert(value: Any, kind: Any, path: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(_said(str(error)), field=path) from None


def _said(message: str) -> str:
    """What the converter said, in words for people."""
    match = _EXPECTED.search(message)
    if match is None:
        return message.partition(" - at ")[0]
    expected, got = (" or ".join(_WORDS.get(name, name) for name in part.split(" | ")) for part in match.groups())
    return f"must be {expected}, not {got}"


def _check_numbers(value: Any, path: str) -> None:
    if isinstance(value, tuple | list):
        for item in value:
            _check_numbers(item, path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput("must be finite", field=path)
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise InvalidInput("must be at most 2**53", field=path)
