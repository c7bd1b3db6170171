"""The output of a job: kept up to a limit, the beginning and the end rather than the middle."""

from __future__ import annotations

import threading
from collections import deque

HEAD = 256 << 10
TAIL = 768 << 10


class Output:
    """Collects bytes; `take` hands over what is new as long as the head has room, `rest` the remainder."""

    __slots__ = ("_dropped", "_lock", "_new", "_room", "_tail", "_tail_limit", "_tail_size")

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._lock = threading.Lock()
        self._room = head
        self._new = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._tail_limit = tail
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """More output."""
        with self._lock:
            first, later = data[: self._room], data[self._room :]
            self._new += first
            self._room -= len(first)
            if later:
                self._tail.append(later)
                self._tail_size += len(later)
            while self._tail_size - len(self._tail[0]) >= self._tail_limit if self._tail else False:
                gone = self._tail.popleft()
                self._tail_size -= len(gone)
                self._dropped += len(gone)

    def write(self, text: str) -> None:
        """More output, as text."""
        self.add(text.encode("utf-8", "replace"))

    def take(self) -> str:
        """What has come since the last look and will not be dropped."""
        with self._lock:
            if not self._new:
                return ""
            taken, self._new = bytes(self._new), bytearray()
        return _text(taken)

    def rest(self) -> str:
        """Everything that was not taken yet, at the end of the job."""
        if not (self._new or self._tail or self._dropped):
            return ""
        text = self.take()
        with self._lock:
            tail = b"".join(self._tail)
            cut = max(0, len(tail) - self._tail_limit)
            dropped, tail = self._dropped + cut, tail[cut:]
            self._tail.clear()
            self._tail_size = self._dropped = 0
        note = f"\n[... {dropped} bytes of output were not kept ...]\n" if dropped else ""
        return text + note + _text(tail)


def _text(data: bytes) -> str:
    """Text that can be stored and sent: whatever is not UTF-8, and NUL, is replaced."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")
