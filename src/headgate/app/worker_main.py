"""The main program of a worker process: `python -m headgate.app.worker_main ORDERS`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import msgspec

from headgate.app.app import App
from headgate.app.processes import Orders
from headgate.core.errors import InvalidInput
from headgate.worker.printing import captured
from headgate.worker.runtime import Options
from headgate.worker.sources import load


def work(app: App, enough: threading.Event, **how: Any) -> None:
    """Work for an app until it is enough."""
    options = how.pop("options", None)
    chosen = msgspec.convert(options, Options) if isinstance(options, dict) else options
    app.worker(**how, options=chosen).run_until(enough)


def main() -> None:
    """Entry of the process."""
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    enough = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: enough.set())
    threading.Thread(target=_until_alone, args=(enough,), daemon=True).start()
    with captured():
        app = load(orders.source)
        if not isinstance(app, App):
            raise InvalidInput(f"{orders.source!r} is not a headgate.App", field="app")
        app.move(orders.address)
        with app:
            work(app, enough, **orders.how)


def _until_alone(enough: threading.Event) -> None:
    """The input ends when whoever started this process is gone."""
    while os.read(0, 4096):
        pass
    enough.set()


if __name__ == "__main__":
    main()
