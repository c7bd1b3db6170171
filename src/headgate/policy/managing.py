"""Everything one can do with policies, in one place: check, deploy, roll back, shadow, enable, replay, watch files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from headgate.core.commands import Command
from headgate.policy.arms import ExperimentingEngine
from headgate.policy.debugging.subject import Context, context_of, of_context
from headgate.policy.debugging.tracing import Trace, trace
from headgate.policy.deciding import PolicyEngine, PolicyStatus
from headgate.policy.decisions import KIND, Decision, Difference, Replayer, load, read_history
from headgate.policy.errors import InvalidPolicy, PolicyForbidden, PolicyNotFound
from headgate.policy.library import Library, Pointer, Version
from headgate.policy.measuring import JobSpan
from headgate.policy.runtime import PolicyRefused, platform_source, platform_version, platform_versions
from headgate.policy.shadowing import RECENT, ShadowReport, last_shadow, report, watched_since
from headgate.policy.sources import Prepared, refusal
from headgate.policy.trying import Trials
from headgate.policy.validation import Validation, validate

R = TypeVar("R")
_TRACE_S = 10.0


class Engine(Protocol):
    """What is asked of the engine that keeps the versions and the decisions."""

    def do(self, command: Command[R]) -> R:
        """Carry out a command."""
        ...

    def documents(self, kind: str) -> dict[str, bytes]:
        """All documents of a kind."""
        ...

    def records(self, kind: str, key: str | None = None, since: int = 0, until: int | None = None) -> list[bytes]:
        """Entries of a log, oldest first."""
        ...

    def each_record(self, kind: str, since: int = 0) -> Iterator[bytes]:
        """The same one by one, from a time on: for logs that are too long to hold."""
        ...

    def each_job(self, since: int) -> Iterator[JobSpan]:
        """Jobs submitted from a time on, oldest first."""
        ...


class Policies:
    """The policies of one engine."""

    def __init__(self, engine: Engine, deciding: PolicyEngine, now: Callable[[], int]) -> None:
        self._engine = engine
        self._deciding = deciding
        self._now = now
        self.library = Library(engine)
        self._trials = (
            Trials(engine, deciding, self.library, now) if isinstance(deciding, ExperimentingEngine) else None
        )

    @property
    def trials(self) -> Trials:
        """Experiments, where the engine can run them."""
        if self._trials is None:
            raise PolicyForbidden("this engine runs no experiments")
        return self._trials

    def _end_experiment(self, why: str) -> None:
        """Whoever puts a policy in charge means now, whatever experiment runs."""
        if self._trials is not None:
            self._trials.end_running(why)

    def status(self) -> PolicyStatus:
        """Who decides, and how well."""
        return self._deciding.status()

    @property
    def mode(self) -> str:
        """home, lab or platform."""
        return self._deciding.settings.mode

    def validate(self, language: str, source: str, **options: Any) -> Validation:
        """Check a policy without deploying it."""
        return validate(language, source, settings=self._deciding.settings.host, **options)

    def draft(
        self, language: str, source: str, name: str | None = None, *, syntax_only: bool = True, **options: Any
    ) -> Prepared:
        """A policy that loads; `InvalidPolicy` with every diagnostic where it does not."""
        checked = self.validate(language, source, name=name, syntax_only=syntax_only, **options)
        if not checked.ok or checked.prepared is None:
            text = "; ".join(str(note) for note in checked.diagnostics if note.severity == "error")
            raise InvalidPolicy(text, field="source", diagnostics=[msgspec.to_builtins(n) for n in checked.diagnostics])
        return checked.prepared

    def keep(self, language: str, source: str, name: str | None = None, *, who: str = "", why: str = "") -> Version:
        """Check a policy thoroughly and keep it as a version that decides nothing yet."""
        prepared = self.draft(language, source, name, syntax_only=False)
        return self.library.add(prepared, self._now(), who, why)

    def deploy(
        self,
        language: str,
        source: str,
        *,
        name: str | None = None,
        mode: Literal["active", "shadow"] = "active",
        base: str | msgspec.UnsetType | None = msgspec.UNSET,
        force: bool = False,
        who: str = "",
        why: str = "",
        **options: Any,
    ) -> Version:
        """Check, keep and put in charge (or let watch). With `base`, only if that version is active now.

        `force` skips the checks of semantics and speed, never that of syntax, and not in platform mode.
        """
        if self._deciding.settings.mode == "platform":
            raise PolicyForbidden("in platform mode only the platform policy decides")
        prepared = self.draft(language, source, name, syntax_only=force, **options)
        version = self.library.add(prepared, self._now(), who, why)
        self._stage(version)
        if mode == "active":
            self._end_experiment(f"{version.id} was deployed")
        self.library.move(mode, version.id, self._now(), who=who, why=why, base=base)
        return version

    def _stage(self, version: Version) -> None:
        try:
            self._deciding.stage(version)
        except PolicyRefused as refused:
            note = refusal(refused)
            raise InvalidPolicy(str(note), field="source", diagnostics=[msgspec.to_builtins(note)]) from refused

    def rollback(self, to: str | None = None, *, who: str = "", why: str = "") -> Pointer:
        """Back to a version, or to the one before."""
        self._end_experiment("rolled back")
        return self.library.rollback(self._now(), to=to, who=who, why=why)

    def use_platform(self, *, who: str = "", why: str = "") -> Pointer:
        """Let the platform policy decide alone."""
        self._end_experiment("the platform policy was put in charge")
        return self.library.move("active", None, self._now(), who=who, why=why)

    def end_shadow(self, *, who: str = "") -> Pointer:
        """Nobody watches any more."""
        return self.library.move("shadow", None, self._now(), who=who, why="shadow ended")

    def enable(self, *, who: str = "") -> Pointer:
        """Let a tripped policy decide again."""
        return self.library.enable(self._now(), who=who)

    def shadow_report(
        self, version: str | None = None, *, since: int | None = None, recent: int = RECENT
    ) -> ShadowReport:
        """How the version that watches does against the one that decides; or one that watched before."""
        pointer = self.library.pointer()
        name = last_shadow(pointer) if version is None else self.library.get(version).id
        if name is None:
            raise PolicyNotFound("no policy has watched yet: deploy one with the mode shadow")
        begin = watched_since(pointer, name) if since is None else since
        return report(self._engine.each_record(KIND, begin), name, begin, recent)

    # -- decisions ----------------------------------------------------------------------------------------------

    def decisions(self) -> list[Decision]:
        """All recorded decisions, oldest first."""
        return [load(body) for body in self._engine.records(KIND)]

    def history(self, decision_id: str) -> list[Decision]:
        """What a replay of one decision needs; `LookupError` where it is not kept."""
        return read_history(self._engine.records, decision_id)

    def replay(self, decision_id: str) -> Difference:
        """Ask the version that decided once more; the answer should be identical."""
        history = self.history(decision_id)
        with Replayer(self._lua_of(history[-1]), self._deciding.settings.host) as replayer:
            return replayer.compare(history)

    def _lua_of(self, decision: Decision) -> str | None:
        """What decided: a version of the library, or the platform policy (none: the one that decides today)."""
        if decision.decided_by != "platform":
            return self.library.get(decision.version).lua
        if decision.version == platform_version():
            return None
        if decision.version not in platform_versions():
            text = f"platform policy {decision.version} is not part of this Headgate"
            raise PolicyNotFound(text, version=decision.version)
        return platform_source(decision.version)

    def try_draft(self, decision_id: str, language: str, source: str) -> Difference:
        """What a draft would have answered in place of the recorded policy."""
        with Replayer(self.draft(language, source).lua, self._deciding.settings.host) as replayer:
            return replayer.compare(self.history(decision_id))

    def context(self, decision_id: str) -> Context:
        """Everything that is needed to make a decision once more elsewhere, under the policy that was asked."""
        history = self.history(decision_id)
        last = history[-1]
        if last.attempted or last.decided_by != "platform":
            version = self.library.get(last.attempted or last.version)
            return context_of(history, version.language, version.source, version.lua)
        lua = self._lua_of(last) or platform_source()
        return context_of(history, "lua", lua, lua)

    def trace(self, decision_id: str, language: str = "lua", source: str | None = None) -> Trace:
        """Each line that runs when a decision is made once more, by the policy that was asked or by a draft."""
        subject = of_context(self.context(decision_id))
        if source is not None:
            subject = subject.with_policy(self.draft(language, source), None)
        return trace(subject, _TRACE_S)

    # -- files --------------------------------------------------------------------------------------------------

    def deploy_file(self, path: Path, **options: Any) -> Version:
        """Deploy a `.lua`, `.yaml` or `.yml` file."""
        language = {".lua": "lua", ".yaml": "yaml", ".yml": "yaml"}.get(path.suffix)
        if language is None:
            raise InvalidPolicy(f"{path.name} ends in neither .lua nor .yaml", field="path")
        try:
            source = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidPolicy(f"{path.name} cannot be read: {error}", field="path") from error
        return self.deploy(language, source, why=f"file {path.name}", **options)
