"""The door: turn what a caller wrote into a `JobSpec`, or say which field is wrong and how."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.core import job as model
from headgate.core import quantities
from headgate.core.errors import InvalidInput, InvalidJob

Pairs = tuple[tuple[str, str], ...]


class Limits(msgspec.Struct, frozen=True):
    """How large the parts of a job may be."""

    payload: int = 1 << 20
    attributes: int = 1 << 16
    text: int = 256
    labels: int = 64
    resources: int = 64
    dependencies: int = 200_000
    arguments: int = 1 << 17
    depth: int = 64


LIMITS: Final = Limits()
_PLAIN: Final = model.JobKind()
_encode = msgspec.json.Encoder().encode
_NO_MAPPINGS: Final = frozenset({int, float, bool, type(None), list, tuple})


Kinds = dict[bytes, model.JobKind]
"""Kinds that were parsed before, by what was written of them in JSON."""


def parse_job(given: Mapping[str, Any], limits: Limits = LIMITS, known: Kinds | None = None) -> model.JobSpec:
    """Check every field and return the specification; raise `InvalidJob` naming the first field that is wrong.

    Many jobs of few kinds may share a `known`, if they came as plain JSON: what makes a kind is then parsed once.
    """
    if type(given) is not dict and not isinstance(given, Mapping):
        raise InvalidJob(f"a job is an object, not {type(given).__name__}")
    try:
        return _parse(given, limits, known)
    except InvalidJob:
        raise
    except InvalidInput as error:
        raise InvalidJob(str(error).partition(": ")[2], field=error.field) from None


def _parse(given: Mapping[str, Any], limits: Limits, known: Kinds | None) -> model.JobSpec:
    own: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    for field, value in given.items():
        if field in _OWN:
            own[field] = _OWN[field](value, field, limits)
        elif field in _KIND:
            shared[field] = value
        else:
            raise InvalidJob(unknown(field, (*_OWN, *_KIND)), field=str(field)[:64])
    kind = _kind(shared, limits, known) if shared else _PLAIN
    _complete(kind, own)
    return model.JobSpec(kind=kind, **own)


def _kind(given: dict[str, Any], limits: Limits, known: Kinds | None) -> model.JobKind:
    if known is None:
        return model.JobKind(**{field: _KIND[field](value, field, limits) for field, value in given.items()})
    written = _encode(given)
    kind = known.get(written)
    if kind is None:
        kind = known[written] = _kind(given, limits, None)
    return kind


def unknown(name: object, valid: Iterable[str], what: str = "field") -> str:
    """Say that a name is unknown and which one may have been meant."""
    close = difflib.get_close_matches(str(name), list(valid), n=1)
    return f"unknown {what}" + (f"; did you mean {close[0]!r}?" if close else "")


def _complete(kind: model.JobKind, own: dict[str, Any]) -> None:
    if not own.get("name"):
        own["name"] = kind.type
    begin, end = own.get("not_before"), own.get("deadline")
    if begin is not None and end is not None and end < begin:
        raise InvalidJob("lies before not_before", field="deadline")


def text(value: object, field: str, limits: Limits) -> str:
    """A short, printable, non-empty string."""
    if not isinstance(value, str):
        raise InvalidInput(f"must be a string, not {type(value).__name__}", field=field)
    if not value.strip():
        raise InvalidInput("must not be empty", field=field)
    if len(value) > limits.text:
        raise InvalidInput(f"must be at most {limits.text} characters", field=field)
    if not value.isprintable():
        raise InvalidInput("must be printable: no control characters or lone surrogates", field=field)
    return value


def whole(value: object, field: str, low: int, high: int) -> int:
    """An integer inside bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"must be a whole number, not {type(value).__name__}", field=field)
    if not low <= value <= high:
        raise InvalidInput(f"must be between {low} and {high}", field=field)
    return value


def _integer(low: int, high: int) -> Callable[[object, str, Limits], int]:
    return lambda value, field, _: whole(value, field, low, high)


def _boolean(value: object, field: str, _: Limits) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput("must be true or false", field=field)
    return value


def _optional(parser: Callable[[Any, str, Limits], Any]) -> Callable[[Any, str, Limits], Any]:
    return lambda value, field, limits: None if value is None else parser(value, field, limits)


def _priority(value: object, field: str, _: Limits) -> str:
    number = getattr(value, "value", value)
    if isinstance(number, int) and not isinstance(number, bool) and number in model.NUMBERED:
        return model.NUMBERED[number]
    if isinstance(number, str) and number in model.PRIORITIES:
        return number
    names = ", ".join(model.PRIORITIES)
    raise InvalidInput(f"must be one of {names}, or 1 (lowest) to 5 (highest)", field=field)


def pairs(value: object, field: str, limits: Limits) -> Pairs:
    """A small mapping of strings, sorted so that equal mappings are equal."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"must be an object of strings, not {type(value).__name__}", field=field)
    if len(value) > limits.labels:
        raise InvalidInput(f"must have at most {limits.labels} entries", field=field)
    named = {text(name, field, limits): item for name, item in value.items()}
    return tuple(sorted((name, _label(item, f"{field}.{name}", limits)) for name, item in named.items()))


def _label(value: object, field: str, limits: Limits) -> str:
    return "" if value == "" else text(value, field, limits)


def _resources(value: object, field: str, limits: Limits) -> quantities.Resources:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"must be an object of amounts, not {type(value).__name__}", field=field)
    if len(value) > limits.resources:
        raise InvalidInput(f"must name at most {limits.resources} resources", field=field)
    return quantities.resources({text(name, field, limits): item for name, item in value.items()}, field)


def json_bytes(value: object, field: str, largest: int, depth: int) -> bytes:
    """Encode a JSON value strictly: finite numbers, bounded depth, size and digits. Bytes are taken as encoded."""
    if isinstance(value, msgspec.Raw):  # cut out of a document that was read strictly
        encoded = bytes(value)
    elif isinstance(value, bytes):
        encoded = _already_json(value, field)
    else:
        _strict(value, field, depth)
        try:
            encoded = _encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"is not JSON: {error}", field=field) from None
    if len(encoded) > largest:
        raise InvalidInput(f"is {len(encoded)} bytes, more than the {largest} allowed", field=field)
    return encoded


def _already_json(value: bytes, field: str) -> bytes:
    try:
        msgspec.json.decode(value)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"is not JSON: {error}", field=field) from None
    return value


def _strict(value: object, field: str, depth: int) -> None:
    if depth < 0:
        raise InvalidInput("is nested too deeply", field=field)
    kind = type(value)
    if kind is str:  # most values are
        return
    if kind is dict or (kind not in _NO_MAPPINGS and isinstance(value, Mapping)):  # an abstract class is slow to say no
        for name, item in value.items():  # type: ignore[attr-defined]
            if not isinstance(name, str):
                raise InvalidInput("has a key that is not a string", field=field)
            _strict(item, field, depth - 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _strict(item, field, depth - 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput("contains NaN or an infinite number", field=field)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise InvalidInput("contains an integer of more than 64 bits", field=field)
    elif isinstance(value, set | frozenset | bytes | bytearray | memoryview):  # they would come back as something else
        raise InvalidInput(f"contains {kind.__name__}, which JSON has not", field=field)


def _attributes(value: object, field: str, limits: Limits) -> bytes:
    if not isinstance(value, Mapping | msgspec.Raw | bytes):
        raise InvalidInput(f"must be an object, not {type(value).__name__}", field=field)
    return json_bytes(value, field, limits.attributes, limits.depth)


def _dependencies(value: object, field: str, limits: Limits) -> tuple[str, ...]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidInput("must be a list of job ids", field=field)
    given = tuple(value)
    if not all(isinstance(id_, str) for id_ in given):
        raise InvalidInput("must be a list of job ids", field=field)
    ids = tuple(dict.fromkeys(given))
    if len(ids) > limits.dependencies:
        raise InvalidInput(f"must be at most {limits.dependencies} jobs", field=field)
    for id_ in ids:
        text(id_, field, limits)
    return ids


def _retry(value: object, field: str, _: Limits) -> model.Retry:
    if isinstance(value, int) and not isinstance(value, bool):
        value = {"attempts": value}
    if isinstance(value, model.Retry):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput("must be a number of attempts or an object", field=field)
    return model.Retry(**{name: _retry_part(name, item, field) for name, item in value.items()})


def _retry_part(name: str, value: Any, field: str) -> Any:
    path = f"{field}.{name}"
    match name:
        case "attempts":
            return whole(value, path, 1, 1_000)
        case "initial" | "max":
            return quantities.duration(value, path)
        case "factor" | "jitter":
            number = quantities.amount(value, path)
            low, high = (1, 1_000) if name == "factor" else (0, 1)
            if not low <= number <= high:
                raise InvalidInput(f"must be between {low} and {high}", field=path)
            return float(number)
        case "on":
            if not isinstance(value, list | tuple) or any(item not in ("failed", "expired") for item in value):
                raise InvalidInput("must be a list of 'failed' and 'expired'", field=path)
            return tuple(sorted(set(value)))
    raise InvalidInput(unknown(name, ("attempts", "initial", "factor", "max", "jitter", "on")), field=path)


def _run(value: object, field: str, limits: Limits) -> model.Run:
    if isinstance(value, model.PythonRun | model.CommandRun | model.HttpRun | model.ExternalRun):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput("must be an object with a 'kind'", field=field)
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in _RUN_FIELDS:
        raise InvalidInput(f"must be one of {', '.join(_RUN_FIELDS)}", field=f"{field}.kind")
    known = _RUN_FIELDS[kind]
    parts: dict[str, Any] = {}
    for name, item in value.items():
        if name == "kind":
            continue
        if name not in known:
            raise InvalidInput(unknown(name, known), field=f"{field}.{name}")
        parts[name] = known[name](item, f"{field}.{name}", limits)
    return _build_run(kind, parts, field)


def _build_run(kind: str, parts: dict[str, Any], field: str) -> model.Run:
    needed = {"command": "argv", "http": "url"}.get(kind)
    if needed and not parts.get(needed):
        raise InvalidInput("is missing", field=f"{field}.{needed}")
    return _RUNS[kind](**parts)


def _argv(value: object, field: str, limits: Limits) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple) or not value:
        raise InvalidInput("must be a list of strings with at least one entry", field=field)
    for item in value:
        long_text(item, field, limits)
    if sum(len(item) for item in value) > limits.arguments:
        raise InvalidInput(f"must be at most {limits.arguments} characters in all", field=field)
    return tuple(value)


def long_text(value: object, field: str, limits: Limits) -> str:
    """A string that may be long and hold anything but NUL and lone surrogates."""
    if not isinstance(value, str):
        raise InvalidInput(f"must be a string, not {type(value).__name__}", field=field)
    if len(value) > limits.arguments:
        raise InvalidInput(f"must be at most {limits.arguments} characters", field=field)
    if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise InvalidInput("must not contain NUL or lone surrogates", field=field)
    return value


def _url(value: object, field: str, limits: Limits) -> str:
    url = long_text(value, field, limits)
    if not url.startswith(("http://", "https://")):
        raise InvalidInput("must start with http:// or https://", field=field)
    return url


def _method(value: object, field: str, _: Limits) -> str:
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
    if not isinstance(value, str) or value.upper() not in methods:
        raise InvalidInput(f"must be one of {', '.join(methods)}", field=field)
    return value.upper()


def _on_dependency_failure(value: object, field: str, _: Limits) -> str:
    if value not in ("fail", "run"):
        raise InvalidInput("must be 'fail' or 'run'", field=field)
    return str(value)


def _payload(value: object, field: str, limits: Limits) -> bytes:
    return json_bytes(value, field, limits.payload, limits.depth)


def _timeout(value: object, field: str, _: Limits) -> int:
    """A job that may run for no time at all could only fail."""
    span = quantities.duration(value, field)
    if not span:
        raise InvalidInput("must be greater than zero; leave it out for no limit", field=field)
    return span


Parser = Callable[[Any, str, Limits], Any]
_RUNS: Final[dict[str, Callable[..., model.Run]]] = {
    "python": model.PythonRun,
    "command": model.CommandRun,
    "http": model.HttpRun,
    "external": model.ExternalRun,
}
_RUN_FIELDS: Final[dict[str, dict[str, Parser]]] = {
    "python": {"handler": text},
    "command": {"argv": _argv, "env": pairs, "cwd": long_text},
    "http": {"url": _url, "method": _method, "headers": pairs, "body": long_text},
    "external": {},
}
_OWN: Final[dict[str, Parser]] = {
    "name": text,
    "payload": _payload,
    "seed": _optional(_integer(-(2**53), 2**53)),
    "attributes": _attributes,
    "dependencies": _dependencies,
    "not_before": _optional(lambda value, field, _: quantities.instant(value, field)),
    "deadline": _optional(lambda value, field, _: quantities.instant(value, field)),
    "idempotency_key": _optional(text),
}
_KIND: Final[dict[str, Parser]] = {
    "type": text,
    "run": _run,
    "priority": _priority,
    "rank": _integer(-(2**31), 2**31),
    "tenant": text,
    "units": _integer(0, 1_000_000_000),
    "resources": _resources,
    "model_ref": _optional(text),
    "max_tokens": _optional(_integer(0, 2**53)),
    "pool": _optional(text),
    "requires": pairs,
    "labels": pairs,
    "timeout": _optional(_timeout),
    "estimated_duration": _optional(lambda value, field, _: quantities.duration(value, field)),
    "retry": _retry,
    "checkpointable": _boolean,
    "on_dependency_failure": _on_dependency_failure,
}
