"""Progress shows on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

SCRIPT = """
from headgate.cli.progress import progress
with progress("measuring", 2) as advance:
    advance(1)
    advance(2)
"""


def test_a_pipe_sees_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_terminal_sees_a_bar_with_its_name() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stderr=theirs, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while more := os.read(ours, 65_536):
                seen += more
        except OSError:  # the other end is closed
            pass
        assert process.wait(60) == 0
    os.close(ours)
    assert b"measuring" in seen
