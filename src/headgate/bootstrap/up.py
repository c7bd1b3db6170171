"""`headgate up`: server, engine, policies, load sampler and workers, started and ended in order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvloop

from headgate.bootstrap import home
from headgate.bootstrap.demo import submit_demo
from headgate.bootstrap.family import GIVE_UP, Child, Ended
from headgate.bootstrap.logs import start_logs
from headgate.bootstrap.open_files import Limits, raise_limit
from headgate.bootstrap.preflight import preflight
from headgate.bootstrap.service import Served, open_service
from headgate.bootstrap.words import say, show
from headgate.config import Config
from headgate.engine.errors import EngineStopped
from headgate.system import spare_the_collector

FAILED = 1
_LEAVE = 3.0
"""Seconds that a worker gets on top of its jobs' grace to say goodbye."""


def run_up(config: Config, *, demo: bool = False, as_json: bool = False) -> int:
    """Serve until a signal comes; the exit code."""
    start_logs(config.log)
    files = raise_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_up(config, files, demo=demo, as_json=as_json))


async def _up(config: Config, files: Limits, *, demo: bool, as_json: bool) -> int:
    return await _Up(config, files, demo=demo, as_json=as_json).run()


class _Up:
    def __init__(self, config: Config, files: Limits, *, demo: bool, as_json: bool) -> None:
        self._config = config
        self._files = files
        self._demo = demo
        self._json = as_json
        self._enough = asyncio.Event()
        self._signals = 0
        self._children: list[Child] = []

    async def run(self) -> int:
        """1. what can be seen to be wrong, 2. the directory, 3. engine and server, 4. the workers; then back again."""
        for which in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(which, self._asked_to_stop)
        if not await preflight(self._config, self._enough):
            return 0  # it was told to stop before it had begun
        directory = home.prepare(self._config.directory)
        try:
            failed = await self._serve(directory)
        except EngineStopped:
            if not self._enough.is_set():
                raise
            failed = False  # it stood by, and was told that this was enough
        say("stopped; nothing is left running")
        return FAILED if failed else 0

    async def _serve(self, directory: Path) -> bool:
        async with open_service(self._config, self._enough) as served:
            before = home.note_url(directory, served.serving.url)
            try:
                await self._start_workers(served)
                submitted = await submit_demo(served.engine, served.ids) if self._demo else 0
                spare_the_collector()
                self._announce(served, submitted)
                failed = await self._until_the_end(served)
                await self._end_workers()
            finally:
                for child in self._children:
                    child.kill()
                home.forget_url(directory, served.serving.url, before)
        return failed

    async def _until_the_end(self, served: Served) -> bool:
        """Wait for a signal; true if the server ended by itself before."""
        enough = asyncio.ensure_future(self._enough.wait())
        serving = asyncio.ensure_future(served.serving.wait())
        await asyncio.wait({enough, serving}, return_when=asyncio.FIRST_COMPLETED)
        failed = serving.done()
        for waiting in (enough, serving):
            waiting.cancel()
        if failed:
            say("the server ended by itself")
        return failed

    def _asked_to_stop(self) -> None:
        self._signals += 1
        if self._signals > 1:
            for child in self._children:
                child.kill()
        self._enough.set()

    # -- workers --------------------------------------------------------------------------------------------------

    async def _start_workers(self, served: Served) -> None:
        environment = {**os.environ, "HEADGATE_URL": served.serving.url}
        environment.pop("HEADGATE_TOKEN", None)
        if served.worker_token is not None:
            environment["HEADGATE_TOKEN"] = served.worker_token
        for number in range(1, self._config.workers.count + 1):
            name = f"local-{number}"
            child = Child(
                name, self._worker_argv(name), environment, self._child_ended, served.engine.clock.now, self._files
            )
            self._children.append(child)
            await child.start()

    def _worker_argv(self, name: str) -> list[str]:
        workers = self._config.workers
        argv = [sys.executable, "-m", "headgate", "worker", "--id", name, "--parent", str(os.getpid())]
        argv += ["--slots", str(workers.slots), "--pool", workers.pool, "--drain", str(workers.grace / 1000)]
        argv += [part for name, amount in workers.resources.items() for part in ("--resource", f"{name}={amount}")]
        argv += ["--log-level", self._config.log.level, "--log-format", self._config.log.format]
        return [*argv, "--app", workers.app] if workers.app else argv

    def _child_ended(self, ended: Ended) -> None:
        if ended.again_in is not None:
            say(f"worker {ended.name} ended ({ended.how}); it is started again in {ended.again_in:g} s")
            return
        say(f"worker {ended.name} ended ({ended.how}), {GIVE_UP} times in a row at once: IT IS GIVEN UP")
        if all(child.given_up for child in self._children):
            say("NO LOCAL WORKER IS LEFT: mend what they said above and start the service anew")

    async def _end_workers(self) -> None:
        if not self._children:
            return
        grace = self._config.workers.grace / 1000
        say(f"stopping: running jobs have {grace:g} s to finish; Ctrl-C again ends them at once")
        await asyncio.gather(*(child.stop(2 * grace + _LEAVE) for child in self._children))

    # -- words ----------------------------------------------------------------------------------------------------

    def _announce(self, served: Served, submitted: int) -> None:
        """What the user sees when everything serves."""
        config = self._config
        url, open_at = served.serving.url, served.serving.url_with_token
        if self._json:
            facts: dict[str, Any] = {
                "url": url,
                "open": open_at,
                "directory": config.directory,
                "database": served.database,
            }
            facts |= {"pid": os.getpid(), "workers": [child.name for child in self._children], "demo": submitted}
            show(json.dumps(facts))
            return
        rating = config.load.rating
        load = "measured on this machine" if rating == "measured" else f"FIXED at {rating:g} of 10: nothing is measured"
        workers = f"{config.workers.count} processes, {config.workers.slots} jobs each"
        lines = [
            f"Headgate {version('headgate')} is up",
            "",
            f"  open      {open_at}",
            f"  database  {served.database}",
            f"  workers   {workers if config.workers.count else 'none'}",
            f"  load      {load}",
            f"  policy    {served.deciding} (mode {config.mode})",
        ]
        if not config.server.auth:
            lines.append("  access    NO AUTHENTICATION: whoever can log in on this machine may do everything")
        if submitted:
            lines.append(f"  demo      {submitted} jobs submitted")
        lines += ["", "  try       headgate run -- echo hello", "  stop      Ctrl-C", ""]
        show("\n".join(lines))
