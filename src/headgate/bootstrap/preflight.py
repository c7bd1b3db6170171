"""What can be seen to be wrong before anything is opened: an unusable policy file, an app that cannot be loaded.

A service that starts with either would look well and do nothing of what was asked.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from headgate.bootstrap.family import how_it_ended
from headgate.bootstrap.policy_files import check_policy, read_policy
from headgate.bootstrap.words import say
from headgate.config import Config, ConfigError
from headgate.policy.errors import InvalidPolicy
from headgate.policy.verdict import HostSettings

_SAY_AFTER = 10.0
"""Seconds after which we say what we wait for."""


async def preflight(config: Config, enough: asyncio.Event) -> bool:
    """Raise what is wrong; false if it was told to stop meanwhile."""
    if config.policy.file is not None:
        await asyncio.to_thread(_check_policy_file, Path(config.policy.file), config.policy.host)
    return config.workers.app is None or await _check_app(config.workers.app, enough)


def _check_policy_file(path: Path, host: HostSettings) -> None:
    """That it is there and can be loaded; the rest is checked where it is deployed, before anything is served."""
    if host.mode == "platform":
        raise ConfigError("in platform mode only the platform policy decides", field="policy.file")
    found = check_policy(*read_policy(path), host, thorough=False)
    if not found.ok:
        wrong = "; ".join(str(note) for note in found.diagnostics if note.severity == "error")
        raise InvalidPolicy(f"{path}: {wrong}", field="policy.file")


async def _check_app(source: str, enough: asyncio.Event) -> bool:
    """Load it as a worker will, in another process: the code of users has no business in the server."""
    command = [sys.executable, "-m", "headgate", "worker", "--check", "--json", "--app", source]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    answer, asked = asyncio.ensure_future(process.communicate()), asyncio.ensure_future(enough.wait())
    try:
        for patience in (_SAY_AFTER, None):
            done, _ = await asyncio.wait({answer, asked}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                say(f"still loading {source}, to see that the workers can")
    finally:
        asked.cancel()
        if process.returncode is None:
            process.kill()
    printed, _ = await answer
    if process.returncode == 0 or enough.is_set():
        return not enough.is_set()
    raise ConfigError(_why(printed) or f"{source}: {how_it_ended(process.returncode or 0)}", field="workers.app")


def _why(printed: bytes) -> str:
    """What the command says last; whatever the module printed stands before it."""
    try:
        return str(json.loads(printed.splitlines()[-1])["error"]["message"]).removeprefix("app: ")
    except (IndexError, KeyError, TypeError, ValueError):
        return ""
