"""Measured load for an engine without a server: the process that owns the database samples the machine."""

from __future__ import annotations

from typing import TypeVar

from headgate.bootstrap.load import host_sampler
from headgate.core import commands as c
from headgate.core.settings import Settings
from headgate.engine.local import Face
from headgate.engine.member import Member
from headgate.ports import Clock

R = TypeVar("R")


class Measuring:
    """Samples while this process is the owner; when it becomes the owner later, it begins then."""

    def __init__(self, face: Face, settings: Settings, clock: Clock) -> None:
        self._face = face
        self._sampler = host_sampler(face, settings, clock)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._sampler.start(self)

    def stop(self) -> None:
        """Stop sampling; the gate shuts unless somebody else goes on."""
        self._sampler.stop()

    def do(self, command: c.Command[R]) -> R:
        """Hand a sample to the engine, where it is this process that speaks for the machine."""
        if isinstance(self._face, Member) and not self._face.owner:
            return 0.0  # type: ignore[return-value]  # the owner samples the same machine
        return self._face.do(command)
