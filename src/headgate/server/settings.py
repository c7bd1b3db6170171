"""How the server serves: where, for whom, and what it bears."""

from __future__ import annotations

import ipaddress

import msgspec

from headgate.core.conform import conform
from headgate.core.errors import InvalidSettings

DEFAULT_PORT = 8420


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set about the server. Durations are seconds."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    auth: bool = True
    token_file: str | None = None
    """Where the first admin token is kept; without a path none is written."""
    hosts: tuple[str, ...] = ()
    """Further values of the Host header to answer to, such as the public name behind a proxy."""
    origins: tuple[str, ...] = ()
    """Further web origins whose pages may call, such as `https://ops.example.org`."""
    max_body: int = 16 << 20
    max_buffered: int = 256 << 20
    """Bytes of bodies that may be in memory at once, of all requests together."""
    read_timeout: float = 10.0
    """How long a client may take to send a request."""
    write_timeout: float = 10.0
    """How long a client may take to receive an answer."""
    max_connections: int = 4_096
    """Connections at once; when one more comes, the one that has been idle longest is cut off."""
    max_wait: float = 60.0
    """The longest long poll."""
    crowd: int = 256
    """So many requests in progress are a crowd: from here on the least urgent are turned away."""
    max_log: int = 1 << 20
    """Bytes of output kept of one word on a lease."""
    live_interval: float = 0.25
    live_kept: int = 240
    """Deltas of the live feed that can be asked for again."""
    shutdown_grace: float = 5.0
    simulations: int = 2
    """Simulations that may run at once, each in a process of its own."""
    simulation_time: float = 300.0
    """How long one may take."""
    simulation_jobs: int = 100_000
    """How many jobs one may have."""
    simulation_memory: int = 4 << 30


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_server_settings(settings: ServerSettings) -> ServerSettings:
    """Refuse what would leave the door open, or makes no sense."""
    settings = conform(settings, InvalidSettings)
    if not settings.auth and not is_loopback(settings.host):
        raise InvalidSettings(f"serving {settings.host} without authentication is refused", field="auth")
    if not 0 <= settings.port <= 65_535:
        raise InvalidSettings("must be between 0 and 65535", field="port")
    for field in (
        "max_body",
        "max_buffered",
        "read_timeout",
        "write_timeout",
        "max_connections",
        "crowd",
        "live_interval",
        "live_kept",
        "simulation_time",
        "simulation_jobs",
        "simulation_memory",
    ):
        if not getattr(settings, field) > 0:
            raise InvalidSettings("must be greater than zero", field=field)
    for field in ("max_wait", "max_log", "shutdown_grace", "simulations"):
        if not getattr(settings, field) >= 0:
            raise InvalidSettings("must not be negative", field=field)
    return settings
