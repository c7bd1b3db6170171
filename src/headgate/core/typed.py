"""Commands can be made by hand, past every parser: what would not survive the way to the disk is refused here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from headgate.core import quantities
from headgate.core.errors import InvalidInput, InvalidJob
from headgate.core.job import PRIORITIES, JobKind, JobSpec
from headgate.core.job_input import Limits, text, whole

if TYPE_CHECKING:
    from headgate.core.commands import NewJob

T = TypeVar("T", bound=msgspec.Struct)
_encode = msgspec.msgpack.Encoder().encode
MOST_RANK = 2**31
MOST_UNITS = 1_000_000_000


def typed(value: T, field: str) -> T:
    """Refuse a record whose fields are not of their types, or hold text that cannot be written down."""
    try:
        msgspec.msgpack.decode(_encode(value), type=type(value))
    except (msgspec.ValidationError, UnicodeEncodeError, OverflowError, TypeError) as error:
        raise InvalidInput(f"is not valid: {error}", field=field) from None
    return value


def sayable(words: str, most: int = 1_000) -> str:
    """Free text as it can be kept."""
    return words[:most].encode("utf-8", "replace").decode()


def check_kind(kind: JobKind, limits: Limits) -> None:
    """Refuse a kind that no parser would have let in."""
    try:
        typed(kind, "kind")
        whole(kind.units, "units", 0, MOST_UNITS)
        whole(kind.rank, "rank", -MOST_RANK, MOST_RANK)
        text(kind.tenant, "tenant", limits)
        text(kind.type, "type", limits)
        for name, value in kind.resources:
            quantities.amount(value, f"resources.{name}")
        instant(kind.estimated_duration, "estimated_duration")
        if kind.timeout is not None:
            whole(kind.timeout, "timeout", 1, quantities.LARGEST)
        _known_priority(kind.priority)
    except InvalidInput as error:
        raise InvalidJob(str(error).partition(": ")[2] or str(error), field=error.field) from None


def all_plain(jobs: Sequence[NewJob], limits: Limits) -> bool:
    """Whether all jobs wait for nothing but room, no key names them, and `check_own` has nothing against them.

    One quick look for the common case, a thousand times in a bulk: whoever fails it is looked at properly.
    """
    most, payload_most, attributes_most = limits.text, limits.payload, limits.attributes
    for new in jobs:
        job_id, spec = new.id, new.spec
        payload, attributes = spec.payload, spec.attributes
        if not (
            type(job_id) is str
            and job_id.isprintable()
            and job_id.strip()
            and len(job_id) <= most
            and type(payload) is type(attributes) is bytes
            and len(payload) <= payload_most
            and len(attributes) <= attributes_most
            and not spec.dependencies
            and new.retry_of is spec.idempotency_key is None
            and spec.not_before is spec.deadline is None
        ):
            return False
    return True


def check_own(job_id: str, spec: JobSpec, retry_of: str | None, limits: Limits) -> None:
    """Refuse what is this job's own and could not be kept: its id, sizes and times."""
    try:
        text(job_id, "id", limits)
        if retry_of is not None:
            text(retry_of, "retry_of", limits)
        _encoded(spec.payload, "payload", limits.payload)
        _encoded(spec.attributes, "attributes", limits.attributes)
        if spec.not_before is not None:
            instant(spec.not_before, "not_before")
        if spec.deadline is not None:
            instant(spec.deadline, "deadline")
    except InvalidInput as error:
        raise InvalidJob(str(error).partition(": ")[2] or str(error), field=error.field) from None


def _known_priority(name: str) -> None:
    if name not in PRIORITIES:
        raise InvalidInput(f"must be one of {', '.join(PRIORITIES)}", field="priority")


def _encoded(body: bytes, field: str, most: int) -> None:
    if type(body) is not bytes or len(body) > most:
        raise InvalidInput(f"must be at most {most} bytes of JSON", field=field)


def instant(value: int | None, field: str) -> None:
    """A moment or a span in milliseconds, if there is one."""
    if value is not None:
        whole(value, field, 0, quantities.LARGEST)
