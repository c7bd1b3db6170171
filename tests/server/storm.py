"""A process that connects as fast as it can: without a word, half way through one, or with a request."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

KNOCK = """
import select, socket, sys
words = (b"", b"GET /v2/jo", b"GET /healthz HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
count = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as caller:
        caller.sendall(words[count % 3])
    count += 1
    if count == 100:
        print("it blows", flush=True)
print(count)
"""


@contextmanager
def storm_on(port: int) -> Iterator[None]:
    """Until the end of the block; it has really blown."""
    command = [sys.executable, "-c", KNOCK, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"it blows\n"
        yield
        came, _ = caller.communicate()
    assert int(came) > 100
