"""How long what is over stays. The rules of what may be deleted; deleting is the work of the engine and its store."""

from __future__ import annotations

import msgspec

from headgate.core.errors import InvalidSettings

DAY = 86_400_000


class Retention(msgspec.Struct, frozen=True):
    """Ages in milliseconds at which things may be deleted; none: they stay for ever."""

    jobs: int | None = None
    """Ended jobs with their results and their history, by the time they ended."""
    keys: int = DAY
    """A job with an idempotency key stays at least this long after its end, so that a late repeat still finds it."""
    events: int | None = None
    """The history of ended jobs, by the time they ended, and the journal."""
    decisions: int | None = None
    load: int | None = None
    audit: int | None = None
    logs: int | None = None
    """What jobs have written, by the time they wrote it."""

    @property
    def deletes(self) -> bool:
        """Whether anything is ever deleted."""
        return any(getattr(self, name) is not None for name in _OPTIONAL)

    def age_of(self, *, keyed: bool) -> int | None:
        """The age at which an ended job may go."""
        if self.jobs is None:
            return None
        return max(self.jobs, self.keys) if keyed else self.jobs


_OPTIONAL = ("jobs", "events", "decisions", "load", "audit", "logs")


def check_retention(retention: Retention) -> None:
    """Refuse ages that make no sense, naming the field."""
    for name in Retention.__struct_fields__:
        if (getattr(retention, name) or 0) < 0:
            raise InvalidSettings("must not be negative", field=f"retention.{name}")
