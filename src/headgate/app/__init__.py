"""The app: addresses become connections, functions become jobs, workers run beside it or in processes of their own."""

from headgate.app.app import App, AsyncApp

__all__ = ["App", "AsyncApp"]
