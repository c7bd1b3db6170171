"""`headgate token`: who may do what."""

from __future__ import annotations

import argparse
from typing import Any

from headgate.cli.api import connect
from headgate.cli.each import for_each
from headgate.cli.exits import DONE
from headgate.cli.frame import subcommands
from headgate.cli.jobview import instant
from headgate.cli.options import server_options
from headgate.cli.output import emit, paint, table

EXAMPLES = """
headgate token create --scope work --note "gpu machine"        printed once, kept only as a hash
headgate token create --scope submit --scope read --tenant lab
headgate token list
headgate token revoke 3f9c...
"""
SCOPES = ("submit", "work", "read", "policy:edit", "policy:activate", "admin")


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    actions = subcommands(parser)
    create = actions.add("create", "make a token and print it, once")
    create.add_argument("--scope", action="append", required=True, choices=SCOPES, help="may be repeated")
    create.add_argument("--tenant", help="only on this tenant's account")
    create.add_argument("--note", default="", help="what it is for")
    create.add_argument("--expires", metavar="SPAN", help="for how long it is valid, such as 90d")
    create.set_defaults(run=_create)
    actions.add("list", "list tokens, without their secrets").set_defaults(run=_list)
    revoke = actions.add("revoke", "make tokens worthless")
    revoke.add_argument("ids", nargs="+", metavar="TOKEN", help="their ids, as `token list` shows them")
    revoke.set_defaults(run=_revoke)
    for action in actions.all:
        server_options(action)


def _create(arguments: argparse.Namespace) -> int:
    body: dict[str, Any] = {"scopes": arguments.scope, "note": arguments.note}
    if arguments.tenant:
        body["tenant"] = arguments.tenant
    if arguments.expires:
        body["expires_in"] = arguments.expires
    answer = connect(arguments).post("/v2/admin/tokens", body)
    emit(arguments, answer, lambda data: print(data["token"]))
    return DONE


def _list(arguments: argparse.Namespace) -> int:
    emit(arguments, connect(arguments).get("/v2/admin/tokens"), _show)
    return DONE


def _revoke(arguments: argparse.Namespace) -> int:
    api = connect(arguments)
    return for_each(arguments, arguments.ids, lambda path: api.call("DELETE", f"/v2/admin/tokens/{path}"))


def _show(answer: dict[str, Any]) -> None:
    rows = [
        (
            token["id"],
            ", ".join(token["scopes"]),
            token.get("tenant"),
            instant(token.get("created_at")),
            instant(token.get("expires_at")) or paint("never", "grey"),
            token.get("note"),
        )
        for token in answer["tokens"]
    ]
    table(("token", "scopes", "tenant", "created", "expires", "note"), rows)
