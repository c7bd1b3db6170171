"""Options that several commands share."""

from __future__ import annotations

import argparse


def json_option(parser: argparse.ArgumentParser) -> None:
    """`--json`, which every command has."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def server_options(parser: argparse.ArgumentParser) -> None:
    """Where the server is and who asks; normally found by itself."""
    group = parser.add_argument_group("server")
    group.add_argument(
        "--url", metavar="URL", help="where the server is (default: HEADGATE_URL, else the one started here)"
    )
    group.add_argument(
        "--token", metavar="TOKEN", help="the token to show (default: HEADGATE_TOKEN, else .headgate/token)"
    )
    json_option(parser)


def config_options(parser: argparse.ArgumentParser) -> None:
    """Where the configuration comes from."""
    parser.add_argument("--config", metavar="FILE", help="the configuration file (default: headgate.yaml, if there)")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="set any key of the configuration, for example core.lease_ttl=10s; may be repeated",
    )
