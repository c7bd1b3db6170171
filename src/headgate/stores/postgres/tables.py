"""The tables and the rows of the port that they hold. Columns are the fields of a row, in order; keys come first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args, get_type_hints

from headgate.ports import (
    DocumentRow,
    EndRow,
    EventRow,
    JobRow,
    JournalRow,
    LeaseRow,
    RecordRow,
    StatusRow,
)
from headgate.stores.postgres.arrays import pack_bytes, pack_ints, pack_texts

Packer = Callable[[Any], bytes]

_TYPES: Final[dict[type, tuple[str, Packer]]] = {
    int: ("bigint", pack_ints),
    str: ("text", pack_texts),
    bytes: ("bytea", pack_bytes),
}


@dataclass(frozen=True, eq=False)
class Table:
    """A table, as far as statements need to know it."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    packers: tuple[Packer, ...]
    key_length: int

    @property
    def key(self) -> tuple[str, ...]:
        return self.columns[: self.key_length]

    def key_of(self, row: Sequence[Any]) -> Any:
        """What no two rows share."""
        return row[0] if self.key_length == 1 else row[: self.key_length]

    def pack(self, rows: Iterable[Sequence[Any]]) -> list[bytes]:
        """The rows as one packed array per column."""
        return [pack(column) for pack, column in zip(self.packers, zip(*rows, strict=True), strict=True)]

    def pack_keys(self, keys: Iterable[Any]) -> list[bytes]:
        """Keys of rows as one packed array per column of the key."""
        rows = [(key,) for key in keys] if self.key_length == 1 else list(keys)
        packers = self.packers[: self.key_length]
        return [pack(column) for pack, column in zip(packers, zip(*rows, strict=True), strict=True)]

    def select(self, alias: str = "") -> str:
        """The columns as they stand in a SELECT."""
        return ", ".join(f"{alias}.{column}" if alias else column for column in self.columns)


def _table(name: str, row: type[Any], key_length: int) -> Table:
    hints = get_type_hints(row).values()
    kinds = [_TYPES[(get_args(hint) or (hint,))[0]] for hint in hints]  # `int | None` is stored like `int`
    return Table(name, row._fields, tuple(k[0] for k in kinds), tuple(k[1] for k in kinds), key_length)


JOB: Final = _table("job", JobRow, 1)
STATUS: Final = _table("status", StatusRow, 1)
LEASE: Final = _table("lease", LeaseRow, 1)
HISTORY: Final = _table("history", EndRow, 1)
DOCUMENT: Final = _table("document", DocumentRow, 2)
RECORD: Final = _table("record", RecordRow, 3)
EVENT: Final = _table("event", EventRow, 2)
JOURNAL: Final = _table("journal", JournalRow, 1)

HISTORY_OF: Final = _table("event", EventRow, 1)
"""The events of a job together, as they are deleted."""

ALL: Final = (JOB, STATUS, LEASE, HISTORY, DOCUMENT, RECORD, EVENT, JOURNAL)
