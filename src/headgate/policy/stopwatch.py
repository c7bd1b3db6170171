"""Real elapsed time, for the limits of foreign processes only.

A child is killed after so many real milliseconds, whatever clock the engine's decisions are made by; no
decision depends on it.
"""

from __future__ import annotations

# An edge: a hung process cannot be killed in simulated time.
from time import monotonic as seconds  # noqa: TID251

__all__ = ["seconds"]
