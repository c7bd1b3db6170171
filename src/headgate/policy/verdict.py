"""What the engine gets for a question: the actions, who decided them, and why it was not the user's policy,
if it was not.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from headgate.policy.answers import Action
from headgate.policy.deltas import Answer
from headgate.policy.lockdown import Lockdown


class FailureKind(StrEnum):
    """Why the user's policy did not decide; counted by kind."""

    TIMEOUT = "timeout"
    DEATH = "death"
    ERROR = "error"
    INVALID = "invalid"
    MEMORY = "memory"
    BUSY = "busy"


class Verdict(msgspec.Struct, frozen=True):
    """One decision. `answer` is the one that counts; `refused` keeps what the user's policy said when that
    was not it.
    """

    answer: Answer
    actions: list[Action]
    decided_by: Literal["user", "platform"]
    version: str
    failure: FailureKind | None = None
    message: str = ""
    traceback: str = ""
    waited_us: int = 0
    refused: Answer | None = None


class HostSettings(msgspec.Struct, frozen=True):
    """Limits and ways of the policy host."""

    mode: Literal["home", "lab", "platform"] = "home"
    limit_ms: int = 50
    heap_bytes: int = 64 << 20
    load_limit_ms: int = 500
    platform_limit_ms: int = 250
    start_limit_ms: int = 10_000
    cpu_s: int = 600
    max_actions: int = 1024
    portable: bool = False
    lockdown: bool = True


class HostStatus(msgspec.Struct, frozen=True):
    """One look at the host and its child."""

    host_alive: bool
    child_ready: bool
    isolation: Literal["forked", "portable"]
    lockdown: Lockdown | None
    policy_version: str | None
    platform_version: str
    forks: int
    host_starts: int
    failures: dict[str, int]
    degraded: list[str]
