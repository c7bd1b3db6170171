"""List the errors that stand outside the core for the documentation, from their classes.

    python -m tools.error_docs

writes the generated part of docs/reference/errors.md: the name, where to import it from, its code and what it means.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from headgate.core.errors import HeadgateError

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "errors.md"
GENERATED = re.compile(r"(<!-- generated:start -->\n).*?(<!-- generated:end -->)", re.DOTALL)
_SOURCE = ROOT / "src"
_INSIDE = ("headgate.core.", "headgate.testing.")


def errors() -> list[type[HeadgateError]]:
    """Every error outside the core, by room and by name."""
    found = {error for module in _modules() for error in vars(module).values() if _is_error(error, module.__name__)}
    return sorted(found, key=lambda error: (error.__module__, error.__name__))


def _modules() -> Iterator[ModuleType]:
    """Modules with classes that may be errors; others are not imported, some need what is not installed."""
    for path in sorted(_SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(_SOURCE).with_suffix("").parts).removesuffix(".__init__")
        classes = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
        if any(node.bases for node in classes) and not name.startswith(_INSIDE):
            yield importlib.import_module(name)


def _is_error(value: object, module: str) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, HeadgateError)
        and value.__module__ == module
        and not value.__name__.startswith("_")
    )


def section() -> str:
    """The table."""
    rows = [
        f"| `{e.__name__}` | `{e.__module__}` | `{e.__bases__[0].__name__}` | `{e.code}` | {_means(e)} |"
        for e in errors()
    ]
    return "\n".join(["| name | from | is a | has the code | when |", "| --- | --- | --- | --- | --- |", *rows]) + "\n"


def _means(error: type[HeadgateError]) -> str:
    return " ".join((error.__doc__ or "").split("\n\n")[0].split()).replace("|", "\\|")


def page(text: str) -> str:
    """The page with its generated part made anew."""
    return GENERATED.sub(lambda found: found[1] + section() + found[2], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
