"""Completion scripts, written from the parsers themselves: they cannot fall behind."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from headgate.cli.frame import command_parser
from headgate.cli.table import COMMANDS


def words() -> dict[str, list[str]]:
    """By command, and by command and action: the words that may come next."""
    found: dict[str, list[str]] = {}
    for name in COMMANDS:
        parser = command_parser(name)
        actions = _actions(parser)
        found[name] = [*actions, *_options(parser)]
        found |= {f"{name} {action}": list(_options(inner)) for action, inner in actions.items()}
    return found


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask
        yield from (option for option in action.option_strings if option.startswith("--"))
        if not action.option_strings and isinstance(action.choices, list | tuple):
            yield from map(str, action.choices)


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001 - as above
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            return dict(action.choices)
    return {}


def _bash() -> str:
    cases = "\n".join(f'        "{key}") words="{" ".join(value)}" ;;' for key, value in words().items())
    return f"""# bash completion for headgate
_headgate() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" words
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{" ".join(COMMANDS)} --help --version" -- "$current"))
        return
    fi
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{cases}
        *) case "${{COMP_WORDS[1]}}" in
{cases}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _headgate headgate
"""


def _zsh() -> str:
    return f"#compdef headgate\nautoload -U +X bashcompinit && bashcompinit\n{_bash()}"


def _fish() -> str:
    lines = ["# fish completion for headgate", "complete -c headgate -n __fish_use_subcommand -f"]
    for name, text in COMMANDS.items():
        lines.append(f"complete -c headgate -n __fish_use_subcommand -a {name} -d {_quoted(text)}")
    for key, found in words().items():
        name, _, action = key.partition(" ")
        seen = f"__fish_seen_subcommand_from {name}"
        where = f"{seen}; and __fish_seen_subcommand_from {action}" if action else seen
        for word in found:
            what = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c headgate -n '{where}' {what}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


SCRIPTS: dict[str, Callable[[], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
