"""Policies: what runs next, as you say it in Lua or YAML, sandboxed, versioned and replayable.

This is the Python interface. Importing it starts nothing and loads nothing: each name comes from its module when it is
first used. No scheduling rule of the core enters this room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.policy.deciding import PolicyEngine, PolicySettings, PolicyStatus
    from headgate.policy.decisions import Decision, Difference, Replayer, ShadowSaid, history_of
    from headgate.policy.errors import InvalidPolicy, PolicyForbidden, PolicyMoved, PolicyNotFound
    from headgate.policy.host import PolicyHost
    from headgate.policy.library import Library, Move, Pointer, Tripped, Version
    from headgate.policy.managing import Policies
    from headgate.policy.rules import Compiled, Diagnostic, PolicySourceError, compile_source, read_lua, to_yaml
    from headgate.policy.rules.schema import schema
    from headgate.policy.runtime import PolicyRefused, platform_source, platform_version, platform_versions
    from headgate.policy.template_library import Template, template, templates
    from headgate.policy.validation import Validation, validate
    from headgate.policy.verdict import FailureKind, HostSettings, HostStatus, Verdict
    from headgate.policy.watching import FileWatcher, Reloaded

_WHERE = {
    "deciding": ("PolicyEngine", "PolicySettings", "PolicyStatus"),
    "decisions": ("Decision", "Difference", "Replayer", "ShadowSaid", "history_of"),
    "errors": ("InvalidPolicy", "PolicyForbidden", "PolicyMoved", "PolicyNotFound"),
    "host": ("PolicyHost",),
    "library": ("Library", "Move", "Pointer", "Tripped", "Version"),
    "managing": ("Policies",),
    "rules": ("Compiled", "Diagnostic", "PolicySourceError", "compile_source", "read_lua", "to_yaml"),
    "rules.schema": ("schema",),
    "runtime": ("PolicyRefused", "platform_source", "platform_version", "platform_versions"),
    "template_library": ("Template", "template", "templates"),
    "validation": ("Validation", "validate"),
    "verdict": ("FailureKind", "HostSettings", "HostStatus", "Verdict"),
    "watching": ("FileWatcher", "Reloaded"),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "Compiled",
    "Decision",
    "Diagnostic",
    "Difference",
    "FailureKind",
    "FileWatcher",
    "HostSettings",
    "HostStatus",
    "InvalidPolicy",
    "Library",
    "Move",
    "Pointer",
    "Policies",
    "PolicyEngine",
    "PolicyForbidden",
    "PolicyHost",
    "PolicyMoved",
    "PolicyNotFound",
    "PolicyRefused",
    "PolicySettings",
    "PolicySourceError",
    "PolicyStatus",
    "Reloaded",
    "Replayer",
    "ShadowSaid",
    "Template",
    "Tripped",
    "Validation",
    "Verdict",
    "Version",
    "compile_source",
    "history_of",
    "platform_source",
    "platform_version",
    "platform_versions",
    "read_lua",
    "schema",
    "template",
    "templates",
    "to_yaml",
    "validate",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
