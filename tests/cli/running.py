"""The command line as a user meets it: as a process, in a directory of its own."""

import os
import pty
import subprocess
import sys
from pathlib import Path

Done = subprocess.CompletedProcess[str]


def headgate(*arguments: str, cwd: Path | None = None, stdin: str = "", **environment: str) -> Done:
    command = [sys.executable, "-m", "headgate", *arguments]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    return subprocess.run(
        command,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**outside, **environment},
    )


def on_terminal(*command: str) -> bytes:
    """What a command that ends well shows on standard error where that is a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        try:
            while more := os.read(ours, 65_536):
                seen += more
        except OSError:  # the other end is closed
            pass
        assert process.wait(60) == 0
    os.close(ours)
    return seen
