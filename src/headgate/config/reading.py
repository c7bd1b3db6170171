"""File, environment and flags become one configuration: later ones win, and each value knows where it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

import msgspec

from headgate.config import yaml_file
from headgate.config.keys import ENVIRONMENT, RESERVED, Key, Path, known_keys
from headgate.config.schema import FILE, TOKEN_FILE, Config, ConfigError, WorkersPart
from headgate.config.values import ValueRefused, read_text, read_value
from headgate.core.errors import InvalidInput
from headgate.core.quantities import resources
from headgate.core.settings import check_settings
from headgate.policy.rules.diagnostics import nearest
from headgate.server.settings import check_server_settings


class Given(msgspec.Struct, frozen=True):
    """A value that somebody gave, and where."""

    value: Any
    origin: str


class Loaded(msgspec.Struct, frozen=True):
    """The configuration with the origins of what is not a default."""

    config: Config
    origins: dict[str, str]
    file: str | None


def load_config(
    flags: Mapping[str, tuple[str, Any]] | None = None,
    environment: Mapping[str, str] | None = None,
    file: str | None = None,
    settings: Iterable[str] = (),
) -> Loaded:
    """Read everything. `flags`: by key, the flag and its value; `settings`: texts such as `core.lease_ttl=10s`."""
    keys, problems = known_keys(), list[str]()
    environment = environment or {}
    path = _find(file or environment.get("HEADGATE_CONFIG"))
    given: dict[Path, Given] = {}
    if path is not None:
        given |= _from_file(path, keys, problems)
    given |= _from_environment(environment, keys, problems)
    given |= _from_settings(settings, keys, problems)
    given |= _from_flags(flags or {}, keys, problems)
    if problems:
        raise ConfigError("\n".join(problems), problems=problems)
    config = _build(given)
    return Loaded(config, {".".join(at): value.origin for at, value in given.items()}, str(path) if path else None)


def _find(named: str | None) -> FilePath | None:
    path = FilePath(named or FILE)
    if named is not None and not path.is_file():
        raise ConfigError(f"{named} is not a file that can be read", problems=[])
    return path if path.is_file() else None


def _from_file(path: FilePath, keys: Mapping[Path, Key], problems: list[str]) -> dict[Path, Given]:
    found: dict[Path, Given] = {}
    leaves, refused = yaml_file.read(path, keys)
    problems += refused
    for leaf in leaves:
        _take(keys[leaf.path], leaf.value, leaf.origin, found, problems)
    return found


def _from_environment(
    environment: Mapping[str, str], keys: Mapping[Path, Key], problems: list[str]
) -> dict[Path, Given]:
    found: dict[Path, Given] = {}
    variables = {key.variable: key for key in keys.values()}
    for name, text in environment.items():
        if not name.startswith(ENVIRONMENT) or name in RESERVED:
            continue
        if name not in variables:
            problems.append(f"{name}: unknown variable{_meant(name, [*variables, *RESERVED])}")
            continue
        _take_text(variables[name], text, name, found, problems)
    return found


def _from_settings(settings: Iterable[str], keys: Mapping[Path, Key], problems: list[str]) -> dict[Path, Given]:
    found: dict[Path, Given] = {}
    names = {key.name: key for key in keys.values()}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            problems.append(f"--set {text}: must be KEY=VALUE")
        elif name not in names:
            problems.append(f"--set {name}: unknown key{_meant(name, names)}")
        else:
            _take_text(names[name], value, f"--set {name}", found, problems)
    return found


def _from_flags(
    flags: Mapping[str, tuple[str, Any]], keys: Mapping[Path, Key], problems: list[str]
) -> dict[Path, Given]:
    found: dict[Path, Given] = {}
    for name, (flag, value) in flags.items():
        key = keys[tuple(name.split("."))]
        if (
            value == ""
        ):  # a variable of a script that was not set; taken for the default, it would open another database
            problems.append(f"{flag}: must not be empty; leave it out for the default")
            continue
        take = _take_text if isinstance(value, str) else _take
        take(key, value, flag, found, problems)
    return found


def _take(key: Key, value: Any, origin: str, found: dict[Path, Given], problems: list[str]) -> None:
    try:
        found[key.path] = Given(read_value(key, value), origin)
    except ValueRefused as refused:
        problems.append(f"{_place(origin, key.name)}: {refused}")


def _take_text(key: Key, text: str, origin: str, found: dict[Path, Given], problems: list[str]) -> None:
    try:
        found[key.path] = Given(read_text(key, text), origin)
    except ValueRefused as refused:
        problems.append(f"{_place(origin, key.name)}: {refused}")


def _place(origin: str, name: str) -> str:
    """Where a value stands; a line of a file does not say which key it is about."""
    return f"{origin}: {name}" if ":" in origin else origin


def _meant(name: str, known: Iterable[str]) -> str:
    by_lower = {one.lower(): one for one in known}
    close = nearest(name, by_lower)
    return f"; did you mean {by_lower[close]!r}?" if close else ""


def _build(given: Mapping[Path, Given]) -> Config:
    """Put the values over the defaults, and check what only shows when all are together."""
    config: Any = Config()
    for path, value in given.items():
        config = _put(config, path, value.value)
    config = _put(config, ("policy", "host", "mode"), config.mode)
    config = _put(config, ("server", "token_file"), f"{config.directory}/{TOKEN_FILE}")
    if config.load.rating != "measured":
        config = _put(config, ("core", "fixed_busy"), float(config.load.rating))
    for part, check in _CHECKS:
        try:
            config = _put(config, (part,), check(getattr(config, part)))
        except InvalidInput as error:
            raise _refused(part, error, given) from error
    return config  # type: ignore[no-any-return]  # replaced field by field


def _check_workers(part: WorkersPart) -> WorkersPart:
    resources(part.resources, "resources")
    return part


_CHECKS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("core", check_settings),
    ("server", check_server_settings),
    ("workers", _check_workers),
)


def _refused(part: str, error: InvalidInput, given: Mapping[Path, Given]) -> ConfigError:
    """What a part says about its settings, with the place that set them."""
    name = "load.rating" if error.field == "fixed_busy" else f"{part}.{error.field}"
    at = tuple(name.split("."))
    value = given.get(at) or next((one for path, one in given.items() if path[: len(at)] == at), None)
    text = f"{name if value is None else _place(value.origin, name)}: {str(error).partition(': ')[2]}"
    return ConfigError(text, problems=[text])


def _put(part: Any, path: Path, value: Any) -> Any:
    name, rest = path[0], path[1:]
    if isinstance(part, dict):
        return {**part, name: _put(part[name], rest, value) if rest else value}
    if rest:
        inner = getattr(part, name)
        if inner is None:
            inner = _blank_of(part, name)
        value = _put(inner, rest, value)
    return msgspec.structs.replace(part, **{name: value})


def _blank_of(part: Any, name: str) -> Any:
    """An optional part that is set now begins with its own defaults."""
    field = next(field for field in msgspec.structs.fields(type(part)) if field.name == name)
    kinds = [kind for kind in getattr(field.type, "__args__", ()) if kind is not type(None)]
    return kinds[0]()
