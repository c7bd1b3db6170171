"""What can be done with policies without a server: read a file, check it, start from a template."""

from __future__ import annotations

from pathlib import Path

from headgate.policy.errors import InvalidPolicy, PolicyNotFound
from headgate.policy.runtime import platform_source, platform_version
from headgate.policy.template_library import Template, template, templates
from headgate.policy.validation import Validation, validate
from headgate.policy.verdict import HostSettings

__all__ = ["Template", "check_policy", "find_template", "platform", "read_policy", "templates"]

ENDINGS = {".lua": "lua", ".yaml": "yaml", ".yml": "yaml"}


def read_policy(path: Path) -> tuple[str, str]:
    """Language and source of a policy file."""
    language = ENDINGS.get(path.suffix)
    if language is None:
        raise InvalidPolicy(f"{path} ends in neither .lua nor .yaml", field="path")
    try:
        return language, path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidPolicy(f"{path} is not UTF-8: {error}", field="path") from None


def check_policy(language: str, source: str, settings: HostSettings | None = None, *, thorough: bool) -> Validation:
    """Syntax; if thorough also semantics on generated situations and speed."""
    return validate(language, source, settings=settings, syntax_only=not thorough)


def find_template(name: str) -> Template:
    """A template by its name."""
    try:
        return template(name)
    except LookupError as error:
        raise PolicyNotFound(str(error)) from None


def platform() -> tuple[str, str]:
    """Version and source of the platform policy."""
    return platform_version(), platform_source()
