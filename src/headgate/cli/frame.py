"""From words to a command: only the module of the command that was asked for is imported."""

from __future__ import annotations

import argparse
import difflib
import importlib
from collections.abc import Sequence
from types import ModuleType

from headgate.cli.table import COMMANDS, GROUPS

REST = "rest"


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps examples as they were written, and leaves room for names."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)


class Parser(argparse.ArgumentParser):
    """One command; what was not understood is answered with what may have been meant."""

    def __init__(self, prog: str, description: str | None = None, epilog: str | None = None) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, formatter_class=Formatter)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command, with `run` to carry it out. Words after `--` are kept apart."""
    words, rest = _split(argv)
    if not words or words[0].startswith("-"):
        top = top_parser()
        if words and words[0] not in ("-h", "--help", "--version"):
            top.error(f"a command comes first, not {words[0]!r}")
        if "--version" in words:
            from importlib.metadata import version

            print(f"headgate {version('headgate')}")
        else:
            top.print_help()
        raise SystemExit(0)
    name = words[0]
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "; see headgate --help"
        top_parser().error(f"there is no command {name!r}{hint}")
    arguments = command_parser(name).parse_args(words[1:])
    arguments.command = name
    vars(arguments)[REST] = rest
    return arguments


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    if "--" not in argv:
        return list(argv), []
    at = list(argv).index("--")
    return list(argv[:at]), list(argv[at + 1 :])


def command_parser(name: str) -> argparse.ArgumentParser:
    """The parser of one command; its module says what it takes."""
    module = command_module(name)
    parser = Parser(f"headgate {name}", description=_sentence(COMMANDS[name]), epilog=_examples(module))
    module.configure(parser)
    return parser


def command_module(name: str) -> ModuleType:
    """The module of a command."""
    return importlib.import_module(f"headgate.cli.commands.{name}")


def top_parser() -> argparse.ArgumentParser:
    """The parser that only knows names: it shows the help."""
    lines: list[str] = []
    for group, commands in GROUPS.items():
        lines.append(f"{group}:")
        lines += [f"  {name:<12}{text}" for name, text in commands.items()]
    lines += ["", "headgate COMMAND --help says more and gives examples."]
    parser = Parser(
        "headgate", description="Headgate, a programmable, resource-aware job scheduler.", epilog="\n".join(lines)
    )
    parser.usage = "headgate [--help] [--version] COMMAND ..."
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    return parser


def subcommands(parser: argparse.ArgumentParser) -> _Subcommands:
    """Room for the second word of commands such as `policy check`."""
    made = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=argparse.ArgumentParser)
    return _Subcommands(made)


class _Subcommands:
    def __init__(self, made: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        self._made = made
        self.all: list[argparse.ArgumentParser] = []

    def add(self, name: str, text: str, examples: str = "") -> argparse.ArgumentParser:
        """One more action."""
        action = self._made.add_parser(
            name, help=text, description=_sentence(text), epilog=_titled(examples), formatter_class=Formatter
        )
        self.all.append(action)
        return action


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _examples(module: ModuleType) -> str:
    return _titled(getattr(module, "EXAMPLES", ""))


def _titled(examples: str) -> str:
    if not examples:
        return ""
    lines = [f"  {line}" for line in examples.strip().splitlines()]
    return "\n".join(["examples:", *lines])
