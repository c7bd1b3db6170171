"""Where the handlers of another process are: an import path, or a script with the name of the app in it.

`package.module:app` is imported; `path/to/script.py:app` is run as a module of another name than `__main__`, so that
what stands under `if __name__ == "__main__":` does not happen again.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from headgate.core.errors import InvalidInput
from headgate.worker.handlers import Handlers

SCRIPT = "__headgate_script__"


def load(source: str) -> Any:
    """The object that a source names."""
    place, separator, name = source.rpartition(":")
    if not separator or not place or not name:
        raise InvalidInput(f"{source!r} is not of the form module:app or script.py:app", field="app")
    module = _script(Path(place)) if place.endswith(".py") else _module(place)
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


def _module(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidInput(f"{name!r} cannot be imported: {error}", field="app") from error


def _script(path: Path) -> ModuleType:
    known = sys.modules.get(SCRIPT)
    if known is not None and known.__file__ == str(path):
        return known
    spec = importlib.util.spec_from_file_location(SCRIPT, path)
    if spec is None or spec.loader is None or not path.exists():
        raise InvalidInput(f"{path} is not a Python script", field="app")
    module = importlib.util.module_from_spec(spec)
    sys.modules[SCRIPT] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module
