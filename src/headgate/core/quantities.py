"""Amounts, sizes, durations and instants as people write them, turned into numbers that add up exactly."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from headgate.core.errors import InvalidInput

LARGEST = 2**53
"""Beyond this a JSON number is no longer exact everywhere, so nothing larger is accepted."""

Amount = int | float
Resources = tuple[tuple[str, Amount], ...]

_GRAIN = 2**16
_FINE = 2**20
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_SIZES |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "PIB": 2**50}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", re.ASCII)
_SPANS = {"": 1000, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def amount(value: object, field: str) -> Amount:
    """Return a number that sums without drift.

    Fractions are rounded to 1/65536, and to whole numbers from about a million on ('1.3GiB' is no whole number of
    bytes): sums of such numbers are exact in binary floating point, so a ledger that adds and subtracts them returns
    to zero.
    """
    if isinstance(value, str):
        value = size(value, field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"must be a number or a size such as '8GB', not {type(value).__name__}", field=field)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput("must be finite", field=field)
        whole = value.is_integer() or value >= _FINE
        value = round(value) if whole else round(value * _GRAIN) / _GRAIN
    if value < 0:
        raise InvalidInput("must not be negative", field=field)
    if value > LARGEST:
        raise InvalidInput("must be at most 2**53", field=field)
    return value


def size(text: str, field: str) -> Amount:
    """Read '512MB', '8GB', '2GiB' or a plain number."""
    match = _SIZE.fullmatch(text)
    unit = match.group(2).upper() if match else ""
    if match is None or (unit and unit not in _SIZES):
        raise InvalidInput(f"{text!r} is not a size; write for example 512MB, 8GB or 2GiB", field=field)
    number = float(match.group(1)) * _SIZES[unit or "B"]
    return int(number) if number.is_integer() else number


def resources(given: Mapping[str, object], field: str) -> Resources:
    """Return named amounts in a canonical, hashable form; zero amounts ask for nothing and are left out."""
    named = ((name, amount(value, f"{field}.{name}")) for name, value in given.items())
    return tuple(sorted((name, value) for name, value in named if value))


def duration(value: object, field: str) -> int:
    """Return milliseconds: numbers are seconds, strings may carry a unit ('250ms', '30s', '5m', '2h')."""
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        if match is None or match.group(2) not in _SPANS:
            raise InvalidInput(f"{value!r} is not a duration; write for example 30, '30s' or '5m'", field=field)
        return _bounded(float(match.group(1)) * _SPANS[match.group(2)], field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"must be seconds, not {type(value).__name__}", field=field)
    return _bounded(value * 1000, field)


def instant(value: object, field: str) -> int:
    """Return milliseconds since the epoch: numbers are seconds since then, strings are ISO 8601 (UTC if silent)."""
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidInput(f"{value!r} is not an ISO 8601 time", field=field) from None
        value = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return duration(value, field)


def _bounded(milliseconds: float, field: str) -> int:
    if not milliseconds < math.inf:  # nor is NaN; an integer may be too long to ask math.isfinite
        raise InvalidInput("must be finite", field=field)
    if milliseconds < 0:
        raise InvalidInput("must not be negative", field=field)
    if milliseconds > LARGEST:
        raise InvalidInput("is too far away", field=field)
    return round(milliseconds)


def total(parts: Iterable[Resources]) -> dict[str, Amount]:
    """Add up named amounts; names whose sum is zero are left out."""
    sums: dict[str, Amount] = {}
    for part in parts:
        for name, value in part:
            sums[name] = sums.get(name, 0) + value
    return {name: value for name, value in sums.items() if value}


def plain(value: Amount) -> str:
    """An amount as people read it: no exponent, no trail of digits that nobody wrote."""
    return f"{value:.12g}" if abs(value) < 10**12 else str(round(value))
