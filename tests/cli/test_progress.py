"""Progress shows on a terminal, and nowhere else."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.running import on_terminal

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
    assert b"measuring" in on_terminal(sys.executable, "-c", SCRIPT)
