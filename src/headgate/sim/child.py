"""A simulation in a process of its own: an order comes in, frames and the outcome go out.

The process is nice to others, has its memory limited, and ends when whoever started it hangs up. What it says is JSON,
each message after its length in four bytes; the order is msgpack in the same frames, its jobs in pieces.
"""

from __future__ import annotations

import os
import resource
import struct
import sys
import threading
from typing import Any, BinaryIO

import msgspec

from headgate.core.errors import HeadgateError
from headgate.sim.forking import ForkedJob
from headgate.sim.orders import Order, carry_out
from headgate.sim.outcome import Outcome
from headgate.sim.pulse import Pulse

NICE = 10
LENGTH = struct.Struct(">I")
_order = msgspec.msgpack.Decoder(Order)
_jobs = msgspec.msgpack.Decoder(list[ForkedJob])
_encode = msgspec.json.Encoder(enc_hook=str).encode


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="type"):
    """The outcome; nothing follows."""

    outcome: Outcome


class Refused(msgspec.Struct, frozen=True, tag="refused", tag_field="type"):
    """The order cannot be carried out; nothing follows."""

    code: str
    message: str
    details: dict[str, Any]


def read_frame(stream: BinaryIO) -> bytes:
    """The next message; empty at the end."""
    head = stream.read(LENGTH.size)
    return stream.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""


def read_order(stream: BinaryIO) -> Order:
    """The order, and the jobs of its fork, which follow in pieces up to an empty message."""
    order = _order.decode(read_frame(stream))
    jobs: list[ForkedJob] = []
    while piece := read_frame(stream):
        jobs += _jobs.decode(piece)
    if order.fork is None:
        return order
    return msgspec.structs.replace(order, fork=msgspec.structs.replace(order.fork, jobs=tuple(jobs)))


def main(memory: int) -> None:
    """Read, simulate, tell."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints may stand between two messages
    order = read_order(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def tell(message: msgspec.Struct) -> None:
        data = _encode(message)
        out.write(LENGTH.pack(len(data)) + data)
        out.flush()

    go_on = None if order.limit_s is None else Pulse(float, limit_s=order.limit_s)
    try:
        tell(Done(carry_out(order, tell, go_on)))
    except HeadgateError as error:
        tell(Refused(error.code, str(error), error.details))
    except RecursionError as error:
        tell(Refused("simulation_failed", f"{type(error).__name__}: {error}", {}))
    except MemoryError:
        tell(Refused("too_large", f"the simulation needs more than {memory >> 20} MiB of memory", {}))


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
