"""Hot reload: a watched file that changes becomes a new version; one that is broken leaves the last good one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import watchfiles

from headgate.policy.errors import InvalidPolicy, PolicyForbidden
from headgate.policy.managing import Policies


class Reloaded(msgspec.Struct, frozen=True):
    """What became of a change."""

    path: str
    version: str | None
    problem: str = ""


class FileWatcher:
    """Watches one policy file in a thread."""

    def __init__(self, policies: Policies, path: Path, report: Callable[[Reloaded], None]) -> None:
        self._policies = policies
        self._path = path.absolute()
        self._report = report
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.last: Reloaded | None = None

    def start(self) -> Reloaded:
        """Load the file as it is, then follow it. In platform mode nothing is watched.

        One that cannot be deployed is refused with `InvalidPolicy`, unless it is only too slow: that may be the machine
        at this moment, and is reported as later problems are.
        """
        if self._policies.mode == "platform":
            raise PolicyForbidden("in platform mode no policy file is watched")
        first = self.reload(strict=True)
        self._thread = threading.Thread(target=self._watch, name="headgate-policy-file", daemon=True)
        self._thread.start()
        return first

    def stop(self) -> None:
        """Watch no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def reload(self, *, strict: bool = False) -> Reloaded:
        """Deploy the file as it now is; a problem is reported and changes nothing."""
        try:
            version = self._policies.deploy_file(self._path)
            outcome = Reloaded(str(self._path.name), version.id)
        except InvalidPolicy as problem:
            if strict and not _only_slow(problem):
                raise
            outcome = Reloaded(str(self._path.name), None, str(problem))
        self.last = outcome
        self._report(outcome)
        return outcome

    def _watch(self) -> None:
        changes = watchfiles.watch(
            self._path.parent,
            stop_event=self._stop,
            watch_filter=lambda _, changed: Path(changed) == self._path,
            debounce=100,
            step=20,
            rust_timeout=200,
            yield_on_timeout=False,
            recursive=False,
            raise_interrupt=False,
        )
        for _ in changes:
            if self._path.exists():
                self.reload()


def _only_slow(problem: InvalidPolicy) -> bool:
    wrong = {note["code"] for note in problem.details.get("diagnostics", ()) if note["severity"] == "error"}
    return wrong == {"speed"}
