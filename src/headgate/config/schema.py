"""What can be configured. The rules of the core, of the policies and of the server keep their own types and names."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from headgate.core.errors import InvalidInput
from headgate.core.settings import Settings
from headgate.policy.deciding import PolicySettings
from headgate.server.settings import ServerSettings

FILE = "headgate.yaml"
TOKEN_FILE = "token"  # noqa: S105 - the name of a file
Few = Annotated[int, msgspec.Meta(ge=0, le=1_000)]
Some = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
Span = Annotated[int, msgspec.Meta(ge=0)]


class ConfigError(InvalidInput):
    """The configuration is not valid."""


class WorkersPart(msgspec.Struct, frozen=True):
    """The worker processes that `headgate up` starts beside the server."""

    count: Few = 2
    slots: Some = 4
    pool: str = "default"
    resources: dict[str, str | float] = {}
    """What each of them offers to jobs that ask for it, such as `memory: 8GB`."""
    app: str | None = None
    """`module:app` whose handlers the workers know."""
    grace: Span = 5_000
    """Milliseconds that running jobs get to finish when everything stops."""


class LoadPart(msgspec.Struct, frozen=True):
    """Where the busy rating comes from."""

    rating: Literal["measured"] | float = "measured"
    """`measured`, or a fixed rating from 0 to 10."""
    disk: str = "/"
    applications: bool = True


class PolicyPart(PolicySettings, frozen=True):
    """How policies run, and the file that is watched."""

    file: str | None = None


class LogPart(msgspec.Struct, frozen=True):
    """What is written about the service itself, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "warning"
    format: Literal["auto", "text", "json"] = "auto"


class Config(msgspec.Struct, frozen=True):
    """Everything that can be configured."""

    directory: str = ".headgate"
    """Where tokens, sockets and, unless said otherwise, the database live."""
    database: str | None = None
    """A path, `sqlite://PATH`, `memory://` or `postgresql://...`; none: `headgate.db` in the directory."""
    standby: bool = False
    """Whether to wait while another server owns the database, and to take over when it goes."""
    mode: Literal["home", "lab", "platform"] = "home"
    server: ServerSettings = ServerSettings()
    workers: WorkersPart = WorkersPart()
    load: LoadPart = LoadPart()
    policy: PolicyPart = PolicyPart()
    log: LogPart = LogPart()
    core: Settings = Settings()

    @property
    def database_url(self) -> str:
        """The address of the database."""
        return f"{self.directory}/headgate.db" if self.database is None else self.database


DURATIONS = frozenset(
    {
        "core.recalculate",
        "core.poll",
        "core.fall_half_life",
        "core.forget_source",
        "core.lease_ttl",
        "core.ageing",
        "core.stagger",
        "core.fair_half_life",
        "core.retention.jobs",
        "core.retention.keys",
        "core.retention.events",
        "core.retention.decisions",
        "core.retention.load",
        "core.retention.audit",
        "core.retention.logs",
        "core.preemption_grace",
        "core.worker_silence",
        "core.pool_degraded",
        "core.pool_offline",
        "core.forget_offline",
        "core.time_of_day.utc_offset",
        "policy.starve_after",
        "policy.longest_hold",
        "workers.grace",
    }
)
"""Keys whose value is milliseconds and may be written with a unit."""

FOREVER = "forever"
"""What a duration that may be absent is called when it is."""

SECONDS = frozenset(
    {
        "server.read_timeout",
        "server.write_timeout",
        "server.max_wait",
        "server.live_interval",
        "server.shutdown_grace",
        "server.simulation_time",
    }
)
"""Keys whose value is seconds and may be written with a unit."""

SIZES = frozenset(
    {
        "core.limits.payload",
        "core.limits.attributes",
        "policy.host.heap_bytes",
        "server.max_body",
        "server.max_buffered",
        "server.max_log",
        "server.simulation_memory",
    }
)
"""Keys whose value is bytes and may be written with a unit."""

HIDDEN = frozenset({"policy.host.mode", "core.fixed_busy", "server.token_file"})
"""Fields of the parts that are said elsewhere: `mode`, `load.rating`, `directory`."""
