"""WebSockets on the wire: what is ready goes out at once, in one write; what comes in can be taken as it comes.

uvicorn hands messages to a task and takes them from one, and each hand-over is a turn of the loop. That is right for
most; the stream of a worker is the way of every job, so its application gets hold of the protocol itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from websockets.exceptions import InvalidState
from websockets.http11 import Request

from headgate.server.problems import ClientGone
from headgate.server.websocket_protocol import PatientWebSocket

EXTENSION = "headgate.wire"
"""Where in the scope of a connection its wire is found."""


class Wire(PatientWebSocket):
    """The protocol with a way past the queues."""

    taker: Callable[[bytes], None] | None = None
    """Takes messages as they come; without one they wait for `receive`."""

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            extensions: Any = self.scope["extensions"]
            extensions[EXTENSION] = self

    def send_receive_event_to_app(self) -> None:
        if self.taker is None or self.close_sent:
            super().send_receive_event_to_app()
            return
        message, self.frames = b"".join(self.frames), []
        self.taker(message)

    @property
    def ready(self) -> bool:
        """Whether the client keeps up with what it is sent."""
        return self.writable.is_set()

    def write(self, messages: Iterable[bytes]) -> None:
        """Send messages of text in one write; `ClientGone` if the connection is over."""
        if self.close_sent or self.transport.is_closing():
            raise ClientGone
        try:
            for message in messages:
                self.conn.send_text(message)
        except InvalidState as error:
            raise ClientGone from error
        self.transport.write(b"".join(self.conn.data_to_send()))

    def hold(self) -> None:
        """Read nothing more for now."""
        if not self.read_paused and not self.transport.is_closing():
            self.read_paused = True
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if self.read_paused and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()
            self.watch_message()
