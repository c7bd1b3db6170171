"""Python handlers: found by name or import path, called with the payload, answered in JSON.

A payload `{"args": [...], "kwargs": {...}}` becomes the arguments of the call; `null` calls without any; everything
else is handed over as one argument.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

import msgspec

from headgate.core.errors import HeadgateError, InvalidInput
from headgate.core.job import PythonRun
from headgate.core.job_input import LIMITS, json_bytes
from headgate.wire.http import ErrorOut
from headgate.worker.assignment import Assignment
from headgate.worker.context import GiveUp, JobContext, inside

Handler = Callable[..., Any]
_decode = msgspec.json.Decoder().decode
_ARGUMENTS = {"args", "kwargs"}
_LONGEST_TRACE = 50_000


class HandlerNotFound(HeadgateError):
    """This worker has no handler for the job."""


class Handlers(Mapping[str, Handler]):
    """Functions by the name of the job type they handle."""

    def __init__(self) -> None:
        self._by_name: dict[str, Handler] = {}

    def __getitem__(self, name: str) -> Handler:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, name: str, handler: Handler) -> None:
        """Register a function. A name belongs to one function; the same one again (a reload) is fine."""
        known = self._by_name.get(name)
        if known is not None and not _same(known, handler):
            raise InvalidInput(f"{name!r} is handled by {_path(known)} already", field="name")
        self._by_name[name] = handler

    def find(self, run: PythonRun, job_type: str) -> Handler:
        """The function for a job: registered under its handler or type, or named by an import path."""
        name = run.handler or job_type
        handler = self._by_name.get(name)
        if handler is not None:
            return handler
        if ":" in name:
            return import_handler(name)
        known = ", ".join(sorted(self._by_name)) or "none"
        raise HandlerNotFound(f"no handler is registered for {name!r} here (known: {known})", handler=name)


def _path(handler: Handler) -> str:
    return f"{getattr(handler, '__module__', '?')}:{getattr(handler, '__qualname__', '?')}"


def _same(one: Handler, other: Handler) -> bool:
    return one is other or _path(one) == _path(other)


def import_handler(path: str) -> Handler:
    """The function that an import path such as `package.module:function` names."""
    module_name, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise HandlerNotFound(f"{path!r} cannot be imported: {error}", handler=path) from error
    if not callable(found):
        raise HandlerNotFound(f"{path!r} is not a function", handler=path)
    return found  # type: ignore[no-any-return]  # callable was checked


def call(handlers: Handlers, work: Assignment, context: JobContext) -> bytes:
    """Run the handler of a job; the result as JSON."""
    if not isinstance(work.run, PythonRun):
        raise HandlerNotFound(f"a {type(work.run).__name__} is no work for a Python handler")
    handler = handlers.find(work.run, work.type)
    payload = _decode(work.payload)
    with inside(context):
        if _arguments(payload):
            result = handler(*payload.get("args", ()), **payload.get("kwargs", {}))
        else:
            result = handler() if payload is None else handler(payload)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
    return b"null" if result is None else encode_result(result)


def _arguments(payload: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(payload, dict) and bool(payload) and payload.keys() <= _ARGUMENTS


def encode_result(result: object) -> bytes:
    """A result as strict JSON; `InvalidInput` says what is wrong with it."""
    return json_bytes(result, "result", LIMITS.payload, LIMITS.depth)


def failure(error: BaseException) -> tuple[ErrorOut, bool]:
    """An exception as it is reported, and whether another attempt may help."""
    trace = "".join(traceback.format_exception(error))
    cut = trace if len(trace) <= _LONGEST_TRACE else trace[-_LONGEST_TRACE:]
    if (plain := getattr(error, "failure_code", None)) is not None:  # a process or a call: no trace of ours helps
        return ErrorOut(plain, str(error)[:2_000], exit_status=getattr(error, "exit_status", None)), True
    code = error.code if isinstance(error, HeadgateError) else type(error).__name__
    lasting = isinstance(error, GiveUp | HandlerNotFound) or (
        isinstance(error, InvalidInput) and error.field == "result"
    )
    return ErrorOut(code, str(error)[:2_000], cut), not lasting
