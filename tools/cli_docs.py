"""Writes `docs/reference/cli.md` from the parsers of the command line: `python -m tools.cli_docs`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from headgate.cli.exits import MEANINGS
from headgate.cli.frame import command_module, command_parser
from headgate.cli.table import COMMANDS, GROUPS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
HEAD = """# Command line

`headgate COMMAND ...`, or `python -m headgate COMMAND ...`. Every command has `--help` with examples, and `--json` for
programs. This page is written from the parsers by `python -m tools.cli_docs`.

Commands that talk to a server find it by `--url`, else `HEADGATE_URL`, else what `headgate up` left in `.headgate/` of
the working directory, else `http://127.0.0.1:8420`. The token is found the same way: `--token`, `HEADGATE_TOKEN`,
`.headgate/token`. Colours are used only on a terminal, and not where `NO_COLOR` is set.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "\n".join(_overview()), "\n".join(_exit_codes())]
    parts += ["\n".join(_command(name)) for name in COMMANDS]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _overview() -> Iterator[str]:
    yield "| command | does |"
    yield "| --- | --- |"
    for commands in GROUPS.values():
        for name, text in commands.items():
            yield f"| [`{name}`](#headgate-{name}) | {text} |"


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes"
    yield ""
    yield "| code | meaning |"
    yield "| --- | --- |"
    yield from (f"| {code} | {meaning} |" for code, meaning in sorted(MEANINGS.items()))
    yield ""
    yield "`headgate run` exits with the code of its command, or with 128 and the number of the signal that killed it."


def _command(name: str) -> Iterator[str]:
    parser = command_parser(name)
    actions = _actions(parser)
    yield f"## headgate {name}"
    yield ""
    yield f"{parser.description}"
    yield ""
    yield "```console"
    examples = getattr(command_module(name), "EXAMPLES", "").strip().splitlines()
    yield from (f"$ {line}" for line in examples)
    yield "```"
    if not actions:
        yield from _arguments(parser, "")
    for action, inner in actions.items():
        yield ""
        yield f"### headgate {name} {action}"
        yield ""
        yield f"{inner.description}"
        yield from _arguments(inner, "")


def _arguments(parser: argparse.ArgumentParser, indent: str) -> Iterator[str]:
    rows = [_row(action) for action in parser._actions if action.help != argparse.SUPPRESS]  # noqa: SLF001 - no other way
    rows = [row for row in rows if not row.startswith("| `-h`")]
    if rows:
        yield ""
        yield f"{indent}| argument | meaning |"
        yield f"{indent}| --- | --- |"
        yield from rows


def _row(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else (action.dest.upper() if action.nargs != 0 else "")
    if action.choices and action.option_strings:
        value = "/".join(map(str, action.choices))
    names = ", ".join(f"`{option}`" for option in action.option_strings)
    shown = f"{names} `{value}`" if names and value else names or f"`{value}`"
    text = (action.help or "").replace("|", "\\|")
    return f"| {shown} | {text} |".replace("|FILE`", "\\|FILE`")


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            return dict(action.choices)
    return {}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
