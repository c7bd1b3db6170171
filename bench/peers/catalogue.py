"""Which queues are measured, in which form, and what each needs. The tables show them in this order."""

from __future__ import annotations

from dataclasses import dataclass

SUBMIT, BULK, DRAIN, PICK_UP, LIVES, KILL = "submit", "bulk", "drain", "pick_up", "lives", "kill"
SPEED = (SUBMIT, BULK, DRAIN, PICK_UP, LIVES)
REDIS, POSTGRES = "redis", "postgres"


@dataclass(frozen=True)
class Entry:
    """One form of one queue: the module `bench.peers.<queue>` in a variant."""

    queue: str
    variant: str
    title: str
    measures: tuple[str, ...]
    server: str = ""
    packages: tuple[str, ...] = ()
    durable: bool = True
    """Whether a queued job survives the end of every process."""
    polls: bool = False
    """Whether workers look for work at intervals: then the gaps between samples must be longer than those."""

    @property
    def name(self) -> str:
        """As `--only` and the JSON output call it."""
        return f"{self.queue}-{self.variant}" if self.variant else self.queue

    @property
    def ours(self) -> bool:
        """Whether it is Headgate."""
        return self.queue == "headgate"


_REDIS = ("redis", "hiredis")
_CELERY = ("celery", "packaging", *_REDIS)
_POSTGRES = ("psycopg", "psycopg-binary", "psycopg-pool")
_ONE = (SUBMIT, DRAIN, PICK_UP, KILL)
_ALL = (SUBMIT, BULK, DRAIN, PICK_UP, KILL)
_LIVES = (SUBMIT, BULK, DRAIN, PICK_UP, LIVES, KILL)

ENTRIES = (
    Entry("headgate", "file-0", "Headgate, SQLite, one lease at a time", _ALL),
    Entry("headgate", "file-16", "Headgate, SQLite, prefetch 16", (DRAIN,)),
    Entry("headgate", "file-128", "Headgate, SQLite, prefetch 128", (DRAIN,)),
    Entry("headgate", "http-0", "Headgate, server over HTTP, one lease at a time", _ALL),
    Entry("headgate", "http-16", "Headgate, server over HTTP, prefetch 16", (DRAIN,)),
    Entry("headgate", "http-128", "Headgate, server over HTTP, prefetch 128", (DRAIN,)),
    Entry("headgate", "postgres-128", "Headgate, Postgres, prefetch 128", (DRAIN, LIVES), POSTGRES),
    Entry("pgqueuer", "", "PgQueuer, batches of 500", _LIVES, POSTGRES, ("pgqueuer", "asyncpg", "typer", "uvloop")),
    Entry("taskiq", "", "taskiq, Redis stream", _ALL, REDIS, ("taskiq", "taskiq-redis", "uvloop", *_REDIS)),
    Entry("huey", "redis", "Huey, Redis", _ONE, REDIS, ("huey", *_REDIS)),
    Entry("huey", "sqlite", "Huey, SQLite", _ONE, packages=("huey",), polls=True),
    Entry("dramatiq", "", "Dramatiq, Redis, 16 threads", _ONE, REDIS, ("dramatiq", *_REDIS), polls=True),
    Entry("celery", "solo", "Celery, Redis, solo", _ALL, REDIS, _CELERY),
    Entry("celery", "prefork", "Celery, Redis, prefork", (DRAIN, PICK_UP), REDIS, _CELERY),
    Entry("celery", "late", "Celery, Redis, solo, acks_late", (KILL,), REDIS, _CELERY),
    Entry("procrastinate", "", "Procrastinate", _LIVES, POSTGRES, ("procrastinate", *_POSTGRES)),
    Entry("rq", "simple", "RQ, Redis, simple", _ALL, REDIS, ("rq", *_REDIS)),
    Entry("rq", "fork", "RQ, Redis, a fork a job", (DRAIN, PICK_UP), REDIS, ("rq", *_REDIS)),
    Entry("ray", "", "Ray, in memory", (SUBMIT, DRAIN, PICK_UP), packages=("ray",), durable=False),
)


class UnknownPeer(ValueError):
    """`--only` names something that is not in the catalogue."""


def chosen(only: str) -> tuple[Entry, ...]:
    """The entries whose name or queue is in a list separated by commas; all if it is empty."""
    wanted = [word.strip() for word in only.split(",") if word.strip()]
    for word in wanted:
        if not any(word in (entry.name, entry.queue) for entry in ENTRIES):
            known = ", ".join(sorted({entry.queue for entry in ENTRIES} | {entry.name for entry in ENTRIES}))
            raise UnknownPeer(f"--only: {word!r} is not one of {known}")
    return tuple(entry for entry in ENTRIES if not wanted or entry.name in wanted or entry.queue in wanted)
