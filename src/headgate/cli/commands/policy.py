"""`headgate policy`: write, check, deploy and roll back the rules."""

from __future__ import annotations

import argparse

from headgate.cli.frame import subcommands
from headgate.cli.options import json_option, server_options

EXAMPLES = """
headgate policy new --list                      templates to start from
headgate policy new --template night-batch mine.yaml
headgate policy check mine.yaml                 syntax, with line and column
headgate policy test mine.yaml                  a thousand situations, every answer checked, and the speed
headgate policy deploy mine.yaml --shadow       let it watch; without --shadow it decides
headgate policy shadow                          how often it agrees, and where it would have done otherwise
headgate policy experiment start mine.yaml      let it decide every other ten minutes
headgate policy experiment stop --keep b        it was better
headgate policy rollback                        back to the one before
headgate policy decisions --job JOB             decisions about a job; their ids are what these take:
headgate policy trace DECISION                  every line of a recorded decision
headgate policy profile mine.yaml               where its time goes, rule by rule
headgate policy debug DECISION --port 4711      step through it from an editor
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    from headgate.cli import policy_decisions as listing
    from headgate.cli import policy_local as local
    from headgate.cli import policy_looking as looking
    from headgate.cli import policy_remote as remote
    from headgate.cli import policy_trials as trials

    actions = subcommands(parser)
    new = actions.add("new", "write a policy file from a template")
    new.add_argument("file", nargs="?", metavar="FILE", help="where to write it; nothing prints it")
    new.add_argument("--template", default="platform-clone", help="which template (default platform-clone)")
    new.add_argument("--list", action="store_true", help="list the templates")
    new.set_defaults(run=local.new)
    for name, text, run in (
        ("check", "check the syntax of a policy file", local.check),
        ("test", "check every answer of a policy on generated situations, and its speed", local.test),
    ):
        action = actions.add(name, text)
        action.add_argument("file", metavar="FILE")
        action.set_defaults(run=run)
    for action in actions.all:
        json_option(action)
    _remote(actions.add("deploy", "check a policy and put it in charge"), remote.deploy)
    _remote(actions.add("list", "list versions, and which one decides"), remote.versions)
    _remote(actions.add("show", "print the source of a version"), remote.show)
    _remote(actions.add("diff", "compare two versions, or a version and a file"), remote.diff)
    _remote(actions.add("rollback", "back to an earlier version"), remote.rollback)
    shadow = actions.add("shadow", "how the version that watches does against the one that decides")
    _remote(shadow, trials.shadow)
    shadow.add_argument("version", nargs="?", help="default: the one that watches, or did last")
    shadow.add_argument("--recent", type=int, default=5, metavar="N", help="differences to show (default 5)")
    _experiment(actions.add("experiment", "let two policies decide in turn on the live system, and compare"))
    _remote(actions.add("enable", "let a policy decide again that was taken out"), remote.enable)
    deploy, _, show, diff, rollback, *_ = actions.all[3:]
    decisions = actions.add("decisions", "list recorded decisions, the last ones first")
    listing.options(decisions)
    decisions.set_defaults(run=listing.decisions)
    debug = actions.add("debug", "step through a decision from an editor, by the Debug Adapter Protocol")
    trace = actions.add("trace", "print every line of a decision with the variables that change")
    profile = actions.add("profile", "say where a policy spends its time, by function and by rule")
    for action, run in ((debug, looking.debug), (trace, looking.trace), (profile, looking.profile)):
        looking.options(action)
        action.set_defaults(run=run)
    looking.debug_options(debug)
    looking.profile_options(profile)
    deploy.add_argument("file", metavar="FILE")
    deploy.add_argument("--name", help="what to call it (default: what the file says)")
    deploy.add_argument("--shadow", action="store_true", help="let it watch without deciding")
    deploy.add_argument("--base", metavar="VERSION", help="only if this version decides now; 'platform' for none")
    deploy.add_argument("--force", action="store_true", help="skip all checks but syntax")
    show.add_argument("version", nargs="?", default="platform", help="a version, a name, or platform (default)")
    show.add_argument("--lua", action="store_true", help="the Lua that runs, where the source is YAML")
    diff.add_argument("one", metavar="VERSION|FILE")
    diff.add_argument("other", nargs="?", metavar="VERSION|FILE", help="default: the version that decides")
    rollback.add_argument("version", nargs="?", help="default: the one before")
    for action in (deploy, rollback):
        action.add_argument("--why", default="", help="for the history")


def _experiment(action: argparse.ArgumentParser) -> None:
    from headgate.cli import policy_trials as trials

    action.add_argument("do", choices=("start", "status", "stop"), help="what to do")
    action.add_argument("policy", nargs="?", metavar="POLICY|ID",
                        help="start: the policy to try; else an experiment (default: the last one)")  # fmt: skip
    action.add_argument("--against", default="active", metavar="POLICY", help="default: the one that decides now")
    action.add_argument("--split", choices=("time", "tenant", "pool"), default="time", help="default: time")
    action.add_argument("--window", default="10m", metavar="TIME", help="how long each decides at a time (default 10m)")
    action.add_argument("--keep", choices=("a", "b"), help="stop: put this arm in charge")
    action.add_argument("--why", default="", help="for the history")
    _remote(action, trials.experiment)


def _remote(action: argparse.ArgumentParser, run: object) -> None:
    server_options(action)
    action.set_defaults(run=run)
