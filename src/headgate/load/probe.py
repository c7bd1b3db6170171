"""A probe measures something of the machine. Whatever goes wrong with one ends as a signal with a reason and no value.

A probe may hang: a file system on the network that is gone, a driver that does not return. So each runs in a thread of
its own, is waited for no longer than its limit, and is not asked again before it has come back.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headgate.core.errors import HeadgateError

LIMIT = 1_000
"""Milliseconds that a probe may take."""


class ProbeFailed(HeadgateError):
    """The probe could not measure."""


class Probe(Protocol):
    """Something that can be measured. It may fail or hang; it need not be quick or safe from several threads."""

    @property
    def name(self) -> str:
        """What to call it in messages."""
        ...

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that every reading has."""
        ...

    def read(self) -> Mapping[str, float]:
        """Measure now."""
        ...


class Reading(NamedTuple):
    """What a probe measured. A signal without a value has a reason instead, and counts as 10."""

    signals: dict[str, float | None]
    reasons: dict[str, str]


def measure(probe: Probe) -> Reading:
    """Read a probe here and now; every failure becomes a reason."""
    try:
        found = probe.read()
    except Exception as error:  # noqa: BLE001 - a probe that fails in any way at all is reported, never raised
        return failed(probe, str(error) or type(error).__name__)
    signals: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for name in probe.signals:
        value = found.get(name)
        signals[name] = value if isinstance(value, int | float) and math.isfinite(value) else None
        if signals[name] is None:
            reasons[name] = f"the {probe.name} probe measured {value!r}"
    return Reading(signals, reasons)


def failed(probe: Probe, why: str) -> Reading:
    """A reading without a value."""
    reason = f"the {probe.name} probe failed: {why}"
    return Reading(dict.fromkeys(probe.signals, None), dict.fromkeys(probe.signals, reason))


class Guarded:
    """A probe behind a thread and a time limit."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._thread: threading.Thread | None = None
        self._wanted = threading.Event()
        self._done = threading.Event()
        self._answer: Reading | None = None
        self._busy = False
        self._closed = False
        self._missed = 0

    def ask(self) -> None:
        """Have the probe read, unless it still hangs in an earlier reading."""
        if self._busy:
            return
        self._busy = True
        self._done.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=f"headgate-probe-{self.probe.name}", daemon=True)
            self._thread.start()
        self._wanted.set()

    def collect(self, within: float) -> Reading:
        """The answer to the last `ask`, or a failure if it does not come within so many seconds."""
        answered = self._done.wait(within)
        answer = self._answer
        if not answered or answer is None:
            self._missed += 1
            times = "" if self._missed == 1 else f" ({self._missed} times in a row)"
            return failed(self.probe, f"it did not answer in time{times}")
        self._missed = 0
        return answer

    @property
    def hangs(self) -> bool:
        """Whether the last answer did not come in time."""
        return self._missed > 0

    def close(self) -> None:
        """Ask no more. A probe that hangs is left behind; its thread does not keep the process alive."""
        self._closed = True
        self._wanted.set()
        if self._thread is not None and not self._busy and self._thread is not threading.current_thread():
            self._thread.join()

    def _serve(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            self._answer = measure(self.probe)
            self._busy = False
            self._done.set()


class Probes:
    """Several probes, read side by side."""

    def __init__(self, probes: Sequence[Probe], limit: int = LIMIT) -> None:
        self._guarded = [Guarded(probe) for probe in probes]
        self._limit = limit / 1000

    def read(self) -> Reading:
        """One reading of all of them; takes at most the time limit, however many hang."""
        for guarded in self._guarded:
            guarded.ask()
        signals: dict[str, float | None] = {}
        reasons: dict[str, str] = {}
        patience = self._limit
        for guarded in self._guarded:
            reading = guarded.collect(patience)
            if guarded.hangs:
                patience = 0.0  # all were asked at once, so the others have had their time as well
            signals |= reading.signals
            reasons |= reading.reasons
        return Reading(signals, reasons)

    def close(self) -> None:
        """Let the threads go."""
        for guarded in self._guarded:
            guarded.close()
