"""Policies by name: the native orderings, the templates and the platform policy, or anybody's file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Self

from headgate.core.errors import InvalidInput
from headgate.core.ordering import FirstFit, Policy
from headgate.policy.rules import PolicySourceError
from headgate.policy.runtime import PolicyRefused, platform_source
from headgate.policy.sources import prepare
from headgate.policy.template_library import template, templates
from headgate.policy.verdict import HostSettings
from headgate.sim.lua import Hosted, InProcess, LuaDecider
from headgate.sim.native import StrictFcfs

NATIVE: dict[str, Callable[[], Policy]] = {"native:first-fit": FirstFit, "native:fcfs": StrictFcfs}
PLATFORM = "platform"


class OpenPolicy:
    """A policy ready to decide in one world; closing it ends the processes it may have."""

    def __init__(self, name: str, policy: Policy, asker: InProcess | Hosted | None = None) -> None:
        self.name = name
        self.policy = policy
        self._asker = asker

    @property
    def took_us(self) -> int:
        """Real time spent in the policy; 0 for native orderings, whose time is not measured."""
        return 0 if self._asker is None else self._asker.took_us

    @property
    def decisions(self) -> int:
        """How often it was asked."""
        return self.policy.decisions if isinstance(self.policy, LuaDecider) else 0

    @property
    def failures(self) -> Counter[str]:
        """How often the platform policy had to stand in, by the kind of failure."""
        return Counter() if self._asker is None else self._asker.failures

    @property
    def first_failure(self) -> str:
        """What went wrong when it failed for the first time."""
        return "" if self._asker is None else self._asker.first_failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._asker is not None:
            self._asker.stop()


def open_policy(given: str | Path | Policy, *, host: HostSettings | None = None) -> OpenPolicy:
    """A policy by name (`platform`, a template, `native:fcfs`), by the path of a `.lua` or `.yaml` file, or itself.

    What comes with Headgate runs in this process; a file runs in the policy host, behind its limits.
    """
    if not isinstance(given, str | Path):
        return OpenPolicy(type(given).__name__, given)
    name = str(given)
    if name in NATIVE:
        return OpenPolicy(name, NATIVE[name]())
    if name == PLATFORM:
        trusted = InProcess(None)
        return OpenPolicy(name, LuaDecider(trusted), trusted)
    if name.endswith((".lua", ".yaml", ".yml")):
        foreign = _hosted(name, _lua_of(Path(name)), host)
        return OpenPolicy(Path(name).stem, LuaDecider(foreign), foreign)
    return _template(name)


def open_source(name: str, lua: str, *, host: HostSettings | None = None) -> OpenPolicy:
    """Somebody's Lua, in the policy host."""
    foreign = _hosted(name, lua, host)
    return OpenPolicy(name, LuaDecider(foreign), foreign)


def _hosted(name: str | Path, lua: str, host: HostSettings | None) -> Hosted:
    try:
        return Hosted(lua, host)
    except PolicyRefused as refused:
        line = refused.line or 1
        raise InvalidInput(f"{name}:{line}: {refused.message}", field="policy", line=line) from refused


def policy_names() -> list[str]:
    """Every name that `open_policy` knows."""
    return [PLATFORM, *NATIVE, *(found.name for found in templates())]


def source_of(name: str) -> str:
    """The Lua of a policy that has one."""
    if name == PLATFORM:
        return platform_source()
    if name.endswith((".lua", ".yaml", ".yml")):
        return _lua_of(Path(name))
    found = template(name)
    return prepare(found.language, found.source, found.name).lua


def _template(name: str) -> OpenPolicy:
    try:
        source = source_of(name)
    except LookupError:
        raise InvalidInput(
            f"{name!r} is neither a file nor one of {', '.join(policy_names())}", field="policy"
        ) from None
    trusted = InProcess(source)
    return OpenPolicy(name, LuaDecider(trusted), trusted)


def _lua_of(path: Path) -> str:
    try:
        source = path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}", field="policy") from error
    language = "lua" if path.suffix == ".lua" else "yaml"
    try:
        return prepare(language, source, path.stem).lua
    except PolicySourceError as error:
        raise InvalidInput(f"{path}: {error}", field="policy") from error
