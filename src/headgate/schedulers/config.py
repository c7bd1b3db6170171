"""From a configuration to a scheduler: the `scheduler:` block as it stands, as a dictionary or in a YAML file."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from headgate.schedulers.base import EngineScheduler
from headgate.schedulers.dependency import DependencyScheduler
from headgate.schedulers.distributed import DistributedScheduler
from headgate.schedulers.errors import SchedulerError
from headgate.schedulers.priority import PriorityScheduler
from headgate.schedulers.resource import ResourceScheduler
from headgate.schedulers.task import TaskScheduler

KINDS: dict[str, type[EngineScheduler]] = {
    "task": TaskScheduler,
    "resource": ResourceScheduler,
    "dependency": DependencyScheduler,
    "priority": PriorityScheduler,
    "distributed": DistributedScheduler,
}


def create_scheduler(config: Mapping[str, Any] | str | PathLike[str]) -> EngineScheduler:
    """The scheduler that `scheduler.type` names, with the block of that type as its configuration."""
    block = _read(config) if isinstance(config, str | PathLike) else config
    if not isinstance(block, Mapping):
        raise SchedulerError("the configuration must be a mapping with a 'scheduler' block")
    block = block.get("scheduler", block)
    if not isinstance(block, Mapping):
        raise SchedulerError("scheduler: must be a mapping", field="scheduler")
    known = ["type", *(f"{kind}_scheduler" for kind in KINDS)]
    for name in block:
        if name not in known:
            raise SchedulerError(f"scheduler.{name}: unknown key{_meant(str(name), known)}", field=f"scheduler.{name}")
    kind = block.get("type", "task")
    if kind not in KINDS:
        text = f"scheduler.type: must be one of {', '.join(KINDS)}{_meant(str(kind), list(KINDS))}"
        raise SchedulerError(text, field="scheduler.type")
    return KINDS[kind](block.get(f"{kind}_scheduler") or {})


def _meant(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _read(path: str | PathLike[str]) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise SchedulerError(f"{path} cannot be read: {error}") from error
