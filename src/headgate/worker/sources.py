"""Where the handlers of another process are: an import path, or a script with the name of the app in it.

`package.module:app` is imported; `path/to/script.py:app` is run as a module of another name than `__main__`, so that
what stands under `if __name__ == "__main__":` does not happen again.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from headgate.core.errors import InvalidInput
from headgate.worker.handlers import Handlers

SCRIPT = "__headgate_script__"
_PACKAGE = str(Path(__file__).parents[1])
_IMPORTS = str(Path(importlib.__file__).parent)


def load(source: str) -> Any:
    """The object that a source names."""
    place, separator, name = source.rpartition(":")
    if not separator or not place or not name:
        raise InvalidInput(f"{source!r} is not of the form module:app or script.py:app", field="app")
    module = _run(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidInput(f"{place} has no {name!r}", field="app")
        found = getattr(found, part)
    return found


def load_handlers(source: str) -> Handlers:
    """The handlers of the app that a source names."""
    handlers = getattr(load(source), "handlers", None)
    if not isinstance(handlers, Handlers):
        raise InvalidInput(f"{source!r} is not a headgate.App", field="app")
    return handlers


def locate(app: object) -> str:
    """The source that names an app, so that another process can load it."""
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is app:
                return f"{_place(module)}:{name}"
    raise InvalidInput("the app must be a global of a module, so that worker processes can import it", field="app")


def _place(module: ModuleType) -> str:
    if module.__name__ not in ("__main__", SCRIPT):
        return module.__name__
    spec = getattr(module, "__spec__", None)
    if module.__name__ == "__main__" and spec is not None:  # python -m package.module
        return str(spec.name)
    path = getattr(module, "__file__", None)
    if path is None:
        raise InvalidInput("the app was made in an interactive session; put it into a file", field="app")
    return str(Path(path).resolve())


def _run(place: str) -> ModuleType:
    """Whatever goes wrong in somebody's module is theirs to mend: say what it was, and in which line."""
    script = Path(place) if place.endswith(".py") else None
    if script is not None and not script.is_file():
        raise InvalidInput(f"{script} is not a Python script", field="app")
    try:
        return _module(place) if script is None else _script(script)
    except Exception as error:
        raise InvalidInput(f"{place!r} cannot be imported: {_said(error)}", field="app") from error


def _said(error: Exception) -> str:
    steps = [step for step in traceback.extract_tb(error.__traceback__) if _own(step)]
    if not steps:  # there is no such module
        return str(error)
    return f"{type(error).__name__}: {error} ({steps[-1].filename}, line {steps[-1].lineno})"


def _own(step: traceback.FrameSummary) -> bool:
    """Whether a line is neither of this package nor of the machinery of imports."""
    return not step.filename.startswith((_PACKAGE, _IMPORTS, "<frozen"))


def _module(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


def _script(path: Path) -> ModuleType:
    known = sys.modules.get(SCRIPT)
    if known is not None and known.__file__ == str(path):
        return known
    spec = importlib.util.spec_from_file_location(SCRIPT, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[SCRIPT] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[SCRIPT]  # half of it is no module
        raise
    return module
