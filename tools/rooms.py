"""The architecture table as an import-linter contract.

import-linter's own contracts refuse to name a module that does not exist; this one takes the whole table,
ignores rooms that have no file yet, and refuses a module that has no row. It looks at direct imports only:
every arrow of a longer path has to be allowed by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

Table = dict[str, frozenset[str]]


def read_table(rows: Iterable[str]) -> Table:
    """Turn "room: allowed allowed" lines into a table."""
    table: Table = {}
    for row in rows:
        room, colon, allowed = row.partition(":")
        if not colon or not room.strip():
            raise ValueError(f"a row must read 'room: allowed ...', not {row!r}")
        table[room.strip()] = frozenset(allowed.split())
    return table


def room_of(module: str, root: str) -> str:
    """Name the room of a module: the first part below the root, or the root itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else root


def broken_imports(graph: ImportGraph, root: str, rooms: Table, outside: Table) -> list[str]:
    """Say, one sentence each, which imports the table does not allow."""
    problems = []
    for module in sorted(m for m in graph.modules if m == root or m.startswith(f"{root}.")):
        room = room_of(module, root)
        if room not in rooms:
            problems.append(f"{module} belongs to no room of the table: add a row for '{room}'")
            continue
        problems += [
            f"{module} -> {imported} (l.{_lines(graph, module, imported)})"
            for imported in sorted(graph.find_modules_directly_imported_by(module))
            if not _allowed(room, imported, root, rooms, outside)
        ]
    return problems


def _allowed(room: str, imported: str, root: str, rooms: Table, outside: Table) -> bool:
    top = imported.split(".", maxsplit=1)[0]
    if top == root:
        target = room_of(imported, root)
        return target == room or target in rooms[room]
    return room not in outside or top in outside[room]


def _lines(graph: ImportGraph, importer: str, imported: str) -> str:
    details = graph.get_import_details(importer=importer, imported=imported)
    return ", ".join(str(detail["line_number"]) for detail in details)


class RoomsContract(Contract):
    """Every room imports only the rooms, and the outside modules, in its row."""

    type_name = "rooms"

    package = fields.StringField()
    rooms = fields.ListField(subfield=fields.StringField())
    outside = fields.ListField(subfield=fields.StringField(), required=False, default=[])

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - their signature
        # Their fields hold the parsed value at run time, which their type hints do not say.
        rooms = read_table(cast("list[str]", self.rooms))
        outside = read_table(cast("list[str]", self.outside))
        problems = broken_imports(graph, cast("str", self.package), rooms, outside)
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for problem in check.metadata["problems"]:
            output.print_error(f"- {problem}", bold=False)
        output.new_line()
