"""The default app: `HEADGATE_URL`, else `.headgate/` in the working directory. Made when it is first asked for."""

from __future__ import annotations

import threading
from typing import Any

from headgate.app.app import App
from headgate.client.leases import LeaseRequest

_lock = threading.Lock()
_apps: list[App] = []


def default_app() -> App:
    """The app that `headgate.lease` and `headgate.observe` use."""
    with _lock:
        if not _apps:
            _apps.append(App())
        return _apps[0]


def lease(
    units: int = 1, *, priority: str | int = "normal", timeout: float | None = None, **fields: Any
) -> LeaseRequest:
    """A lease from the default app: `with headgate.lease(units=20):` blocks until there is room."""
    return default_app().lease(units, priority=priority, timeout=timeout, **fields)


def observe(latency_s: float | None = None, error: bool = False) -> None:
    """Tell the default app that a request of this application has ended."""
    default_app().observe(latency_s, error)
