"""The store in one SQLite file: durable, without a server, owned by one process at a time.

WAL with `synchronous=FULL`: when `seal` has returned, the batch survives a loss of power. Throughput comes from large
batches, never from weaker durability.
"""

from headgate.stores.sqlite.store import SqliteStore
from headgate.stores.sqlite.upkeep import backup, restore, verify

__all__ = ["SqliteStore", "backup", "restore", "verify"]
