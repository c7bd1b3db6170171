"""`headgate completion`: what a shell needs to finish a line."""

from __future__ import annotations

import argparse

from headgate.cli.exits import DONE

EXAMPLES = """
headgate completion bash > ~/.local/share/bash-completion/completions/headgate
headgate completion zsh > "${fpath[1]}/_headgate"
headgate completion fish > ~/.config/fish/completions/headgate.fish
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.add_argument("--json", action="store_true", help="print the words instead: commands, actions, options")
    parser.set_defaults(run=_completion)


def _completion(arguments: argparse.Namespace) -> int:
    import json

    from headgate.cli import shells

    if arguments.json:
        print(json.dumps(shells.words()))
    else:
        print(shells.SCRIPTS[arguments.shell](), end="")
    return DONE
