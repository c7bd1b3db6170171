"""`headgate config`: what is configured, and whether it may stand."""

from __future__ import annotations

import argparse
import os

from headgate.cli.exits import DONE
from headgate.cli.frame import subcommands
from headgate.cli.options import config_options, json_option
from headgate.cli.output import emit

EXAMPLES = """
headgate config show                      every setting with where it came from
headgate config show --changed            only what is not a default
HEADGATE_CORE_LEASE_TTL=10s headgate config check
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    actions = subcommands(parser)
    show = actions.add("show", "print the effective configuration as YAML")
    show.add_argument("--changed", action="store_true", help="leave out what is a default")
    show.set_defaults(run=_show)
    check = actions.add("check", "check the configuration, print what is wrong with it")
    check.set_defaults(run=_check)
    for action in (show, check):
        config_options(action)
        json_option(action)


def _show(arguments: argparse.Namespace) -> int:
    from headgate.config import load_config
    from headgate.config.showing import as_data, as_yaml

    loaded = load_config({}, os.environ, arguments.config, arguments.settings)
    data = {
        name: each for name, each in as_data(loaded).items() if not arguments.changed or each["origin"] != "default"
    }
    emit(arguments, data, lambda _: print(as_yaml(loaded, everything=not arguments.changed), end=""))
    return DONE


def _check(arguments: argparse.Namespace) -> int:
    from headgate.config import load_config

    loaded = load_config({}, os.environ, arguments.config, arguments.settings)
    source = loaded.file or "no file"
    count = len(loaded.origins)
    data = {"ok": True, "file": loaded.file, "set": count}
    emit(arguments, data, lambda _: print(f"the configuration is fine ({source}, {count} settings given)"))
    return DONE
