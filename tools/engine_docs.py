"""List what an engine can be told and asked for the documentation, from the classes themselves.

    python -m tools.engine_docs

writes the generated part of docs/reference/engine.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec

from headgate.core import commands
from headgate.engine import questions

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "engine.md"
GENERATED = re.compile(r"(<!-- generated:start -->\n).*?(<!-- generated:end -->)", re.DOTALL)


def words(module: Any, base: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """What is told or asked, in the order of the source."""
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, base)]
    return [value for value in found if value is not base and value.__module__ == module.__name__]


def table(name: str, of: list[type[msgspec.Struct]]) -> str:
    """One row a word: its fields, what it means, what comes back."""
    rows = [f"| `{kind.__name__}` | {_fields(kind)} | {_means(kind)} | {_answer(kind)} |" for kind in of]
    return "\n".join([f"| {name} | fields | means | answered with |", "| --- | --- | --- | --- |", *rows]) + "\n"


def _fields(kind: type[msgspec.Struct]) -> str:
    return ", ".join(
        f"`{field.name}`" if field.required else f"`{field.name}`?" for field in msgspec.structs.fields(kind)
    )


def _means(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split()).replace("|", "\\|")


def _answer(kind: Any) -> str:
    (answer,) = (get_args(base)[0] for base in kind.__orig_bases__ if get_args(base))
    text = str(answer) if get_args(answer) else getattr(answer, "__name__", "None")
    return "" if answer in (None, type(None)) else f"`{re.sub(r'[a-z_]+[.]', '', text)}`"


def section() -> str:
    """Both tables."""
    told, asked = words(commands, commands.Command), words(questions, questions.Question)
    return f"## Commands\n\n{table('command', told)}\n## Questions\n\n{table('question', asked)}"


def page(text: str) -> str:
    """The page with its generated part made anew."""
    return GENERATED.sub(lambda found: found[1] + section() + found[2], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
