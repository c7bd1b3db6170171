"""The log of a process, to its standard error, as the configuration says."""

from __future__ import annotations

import sys

from headgate.config.schema import LogPart
from headgate.server.logs import configure_logs


def start_logs(part: LogPart) -> None:
    """Write from now on; `auto` is text where a person reads along."""
    text = part.format == "text" or (part.format == "auto" and sys.stderr.isatty())
    configure_logs(sys.stderr, part.level, text=text)
