"""Declarative policies: rules in YAML, read with exact diagnostics, compiled to Lua, edited without loss."""

from headgate.policy.rules.compiler import Compiled, RuleLines, compile_source
from headgate.policy.rules.diagnostics import Diagnostic, PolicySourceError
from headgate.policy.rules.document import parse
from headgate.policy.rules.edit import (
    RuleEditError,
    add_rule,
    change_rule,
    disable_rule,
    enable_rule,
    move_rule,
    remove_rule,
    rename_rule,
)
from headgate.policy.rules.model import Policy, Rule
from headgate.policy.rules.reader import Recovered, read_lua
from headgate.policy.rules.render import to_yaml
from headgate.policy.rules.tree import Limits

__all__ = [
    "Compiled",
    "Diagnostic",
    "Limits",
    "Policy",
    "PolicySourceError",
    "Recovered",
    "Rule",
    "RuleEditError",
    "RuleLines",
    "add_rule",
    "change_rule",
    "compile_source",
    "disable_rule",
    "enable_rule",
    "move_rule",
    "parse",
    "read_lua",
    "remove_rule",
    "rename_rule",
    "to_yaml",
]
