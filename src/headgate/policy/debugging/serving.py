"""A debug adapter on a pair of descriptors or on a port: one client at a time, and everything ends when it leaves."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from typing import TextIO

from headgate.policy.debugging.adapter import Adapter, Open
from headgate.policy.debugging.messages import Inbox, Message, ProtocolError, frame
from headgate.policy.stopwatch import seconds


def serve(reading: int, writing: int, open_subject: Open) -> None:
    """Speak with the client on these descriptors until it disconnects or vanishes."""
    inbox = Inbox()
    adapter = Adapter(open_subject, lambda message: _write(writing, message))
    try:
        while not adapter.finished:
            _wait(adapter, reading)
            adapter.hear()
            if not _readable(reading):
                continue
            data = os.read(reading, 1 << 16)
            if not data:
                return
            for message in inbox.push(data):
                adapter.handle(message)
    except (ConnectionError, ProtocolError) as error:
        raise ClientGone(str(error)) from error
    finally:
        adapter.close()


class ClientGone(ConnectionError):
    """The client left in mid-sentence or speaks something else."""


def _wait(adapter: Adapter, reading: int) -> None:
    poller = select.poll()
    poller.register(reading, select.POLLIN)
    session = adapter.session
    if session is not None:
        poller.register(session.channel, select.POLLIN | (select.POLLOUT if session.channel.unsent else 0))
    due = adapter.due
    finite = due is not None and due != float("inf")
    poller.poll(max(0.0, (due - seconds()) * 1000) + 1 if due is not None and finite else None)


def _readable(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))


def _write(descriptor: int, message: Message) -> None:
    data = frame(message)
    while data:
        data = data[os.write(descriptor, data) :]


def serve_port(port: int, open_subject: Open, say: Callable[[str], None]) -> None:
    """Wait on a port of this machine for one client; port 0 takes any that is free, and says which."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        say(f"waiting for a debug client on 127.0.0.1:{listening.getsockname()[1]}")
        client, _ = listening.accept()
        with client:
            serve(client.fileno(), client.fileno(), open_subject)


def serve_streams(given: TextIO, taken: TextIO, open_subject: Open) -> None:
    """Speak on standard input and output, as editors start an adapter."""
    serve(given.fileno(), taken.fileno(), open_subject)
