"""A WebSocket without a thread of its own: whoever waits for a message takes it off the network.

The protocol is that of `websockets`; here are only the socket and a lock, so that several threads may send while one
receives. Between a message on the network and the thread that wants it stands nobody.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Mapping

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.frames import DATA_OPCODES, Frame
from websockets.uri import parse_uri

_AT_ONCE = 1 << 18
"""Bytes that are read in one go."""
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Ended(Exception):
    """The connection is over."""


class WebSocket:
    """An open connection. Everybody may send; one at a time may receive, and only that one may close it."""

    def __init__(self, connection: socket.socket, protocol: ClientProtocol) -> None:
        self._socket = connection
        self._protocol = protocol
        self._lock = threading.Lock()
        self._readable = _watched(connection, select.POLLIN)
        self._messages: list[bytes] = []
        self._part: list[bytes] = []
        self._over = False
        connection.setblocking(False)
        self._hear_events()
        self._reply()  # a ping may have come with the handshake

    def send(self, text: bytes, within: float) -> None:
        """Send a message; `Ended` if that cannot be done in time."""
        with self._lock:
            if self._over:
                raise Ended("the connection is closed")
            try:
                self._protocol.send_text(text)
                self._write(within)
            except (OSError, WebSocketException) as error:
                raise Ended(str(error)) from error

    def receive(self, within: float) -> list[bytes]:
        """The messages that have come, waiting for the first if need be. There may be none: nothing came in time, or
        what came is not yet a whole message.
        """
        if self._messages or self._readable.poll(within * 1000):
            with self._lock:
                self._read()
                messages, self._messages = self._messages, []
                if messages:
                    return messages
                if self._over:
                    raise Ended(self._reason())
        return []

    def hang_up(self) -> None:
        """Say goodbye; whoever receives hears the end of the connection."""
        with self._lock, contextlib.suppress(OSError, WebSocketException):
            self._protocol.send_close(1000)
            self._write(0.0)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the socket. Only for the one who receives, or when nobody does."""
        with self._lock:
            self._over = True
            self._socket.close()

    # -- with the lock held ---------------------------------------------------------------------------------------

    def _write(self, within: float) -> None:
        """What the protocol has to send; what comes meanwhile is taken in, so that both sides can go on."""
        data = memoryview(b"".join(self._protocol.data_to_send()))
        while data:
            try:
                data = data[self._socket.send(data) :]
            except _LATER:
                if not _watched(self._socket, select.POLLIN | select.POLLOUT).poll(within * 1000):
                    raise TimeoutError("the server does not read what it is sent") from None
                self._take_in()

    def _read(self) -> None:
        self._take_in()
        self._reply()

    def _reply(self) -> None:
        """A ping is answered, and so is a goodbye."""
        if self._protocol.writes:
            with contextlib.suppress(OSError):
                self._write(1.0)

    def _take_in(self) -> None:
        while not self._over:
            try:
                data = self._socket.recv(_AT_ONCE)
            except _LATER:
                break
            except OSError:
                data = b""
            if not data:
                self._over = True
                break
            self._protocol.receive_data(data)
            if len(data) < _AT_ONCE and not isinstance(self._socket, ssl.SSLSocket):
                break
        self._hear_events()

    def _hear_events(self) -> None:
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in DATA_OPCODES:
                self._part.append(bytes(event.data))
                if event.fin:
                    self._messages.append(b"".join(self._part))
                    self._part.clear()
        if self._protocol.close_rcvd is not None or self._protocol.parser_exc is not None:
            self._over = True

    def _reason(self) -> str:
        said = self._protocol.close_rcvd
        return "the server has gone" if said is None else f"{said.code} {said.reason}"


def _watched(connection: socket.socket, events: int) -> select.poll:
    watched = select.poll()
    watched.register(connection, events)
    return watched


def connect(url: str, headers: Mapping[str, str], within: float) -> WebSocket:
    """Open a connection. `OSError` if nobody answers, `InvalidHandshake` if who answers speaks no WebSocket."""
    address = parse_uri(url)
    protocol = ClientProtocol(address, max_size=None)
    request = protocol.connect()
    request.headers.update(headers)
    protocol.send_request(request)
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((address.host, address.port), within))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.secure:
            context = ssl.create_default_context()
            connection = stack.enter_context(context.wrap_socket(connection, server_hostname=address.host))
        connection.sendall(b"".join(protocol.data_to_send()))
        _shake_hands(connection, protocol)
        stack.pop_all()
    return WebSocket(connection, protocol)


def _shake_hands(connection: socket.socket, protocol: ClientProtocol) -> None:
    while not protocol.events and protocol.handshake_exc is None:
        data = connection.recv(_AT_ONCE)
        if data:
            protocol.receive_data(data)
        else:
            protocol.receive_eof()
    if protocol.handshake_exc is not None:
        if isinstance(protocol.handshake_exc, InvalidHandshake):
            raise protocol.handshake_exc
        raise InvalidHandshake(str(protocol.handshake_exc))
