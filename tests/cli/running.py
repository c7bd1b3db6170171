"""The command line as a user meets it: as a process, in a directory of its own."""

import os
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
