"""A debug client as an editor is one: it sends requests, waits for responses and events, and times out."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from headgate.policy.debugging.adapter import Open
from headgate.policy.debugging.messages import Inbox, frame
from headgate.policy.debugging.serving import ClientGone, serve

PATIENCE_S = 30.0
Message = dict[str, Any]


class Client:
    """One end of a connection to an adapter that runs in a thread of this process."""

    def __init__(self, open_subject: Open) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(PATIENCE_S)
        self._inbox, self._number = Inbox(), 0
        self._got: list[Message] = []
        self.problem: Exception | None = None
        self._thread = threading.Thread(target=self._serve, args=(theirs, open_subject))
        self._thread.start()

    def _serve(self, theirs: socket.socket, open_subject: Open) -> None:
        with theirs:
            try:
                serve(theirs.fileno(), theirs.fileno(), open_subject)
            except ClientGone as gone:
                self.problem = gone

    def send(self, command: str, **arguments: Any) -> int:
        self._number += 1
        self.sock.sendall(frame({"seq": self._number, "type": "request", "command": command, "arguments": arguments}))
        return self._number

    def ask(self, command: str, **arguments: Any) -> Message:
        """The body of a response that says yes."""
        answer = self.response(self.send(command, **arguments))
        assert answer["success"], answer
        body: Message = answer["body"]
        return body

    def refused(self, command: str, **arguments: Any) -> str:
        """The message of a response that says no."""
        answer = self.response(self.send(command, **arguments))
        assert not answer["success"], answer
        return str(answer["message"])

    def response(self, number: int) -> Message:
        return self._until(lambda m: m["type"] == "response" and m["request_seq"] == number)

    def event(self, name: str) -> Message:
        """The body of the next event of this name."""
        body: Message = self._until(lambda m: m["type"] == "event" and m["event"] == name)["body"]
        return body

    def _until(self, wanted: Callable[[Message], bool]) -> Message:
        while True:
            for at, message in enumerate(self._got):
                if wanted(message):
                    return self._got.pop(at)
            data = self.sock.recv(1 << 16)
            assert data, f"the adapter hung up; unread: {self._got}"
            self._got += self._inbox.push(data)

    def begin(self, **arguments: Any) -> None:
        """As far as an editor goes before it sets breakpoints."""
        assert self.ask("initialize", adapterID="headgate")["supportsConditionalBreakpoints"]
        self.ask("launch", **arguments)
        self.event("initialized")

    def breakpoints(self, path: str, *lines: int | Message) -> list[Message]:
        wanted = [line if isinstance(line, dict) else {"line": line} for line in lines]
        found: list[Message] = self.ask("setBreakpoints", source={"path": path}, breakpoints=wanted)["breakpoints"]
        return found

    def top(self) -> Message:
        """The innermost frame."""
        found: Message = self.ask("stackTrace", threadId=1)["stackFrames"][0]
        return found

    def locals(self) -> dict[str, str]:
        """Variables of the innermost frame as they are shown."""
        scope = self.ask("scopes", frameId=self.top()["id"])["scopes"][0]
        found = self.ask("variables", variablesReference=scope["variablesReference"])["variables"]
        return {each["name"]: each["value"] for each in found}

    def leave(self) -> None:
        """Vanish, and wait until the adapter has noticed."""
        self.sock.close()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
