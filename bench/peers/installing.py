"""Installs the other queues, pinned, into a virtual environment of their own: build/peers/venv."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PINS = Path(__file__).with_name("pins.txt")
HOME = ROOT / "build" / "peers" / "venv"


class CannotInstall(Exception):
    """A package could not be installed."""


class Environment:
    """The virtual environment. Its list of what is installed is thrown away with it, when the pins change."""

    def __init__(self, home: Path = HOME, pins: Path = PINS) -> None:
        self._home = home
        self._pins = pins
        self._list = home / "installed.txt"

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self._home / "bin" / "python")

    def install(self, packages: tuple[str, ...], *, dependencies: bool = True) -> None:
        """Install packages at their pins, unless they are there."""
        self._prepare()
        wanted = " ".join(packages)
        if wanted in self._list.read_text(encoding="utf-8").splitlines():
            return
        print(f"installing {wanted} ...", file=sys.stderr, flush=True)
        flags = [] if dependencies else ["--no-deps"]
        command = [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(self._pins)]
        _run([*command, *flags, *packages])
        with self._list.open("a", encoding="utf-8") as installed:
            installed.write(f"{wanted}\n")

    def find(self, pattern: str) -> Path | None:
        """A file of an installed package."""
        return next(iter(self._home.glob(f"lib/python*/site-packages/{pattern}")), None)

    def _prepare(self) -> None:
        pins = self._pins.read_text(encoding="utf-8")
        if self._list.exists() and self._list.read_text(encoding="utf-8").startswith(pins):
            return
        _run([sys.executable, "-m", "venv", "--clear", str(self._home)])
        self._list.write_text(f"{pins}\n", encoding="utf-8")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - venv and pip
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise CannotInstall(" ".join(errors[-2:]) or f"{command[0]} failed")
