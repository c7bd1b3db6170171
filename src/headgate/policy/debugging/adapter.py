"""The debug adapter: requests of an editor become commands for the Lua side, its reports become events.

It speaks the Debug Adapter Protocol and knows no transport. One decision, one thread, one client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.core.errors import HeadgateError
from headgate.policy.debugging.messages import Message
from headgate.policy.debugging.places import Places, View
from headgate.policy.debugging.session import OUTPUT, REPLY, STOPPED, Session, SessionEnded, report, verdict
from headgate.policy.debugging.subject import Subject
from headgate.policy.deltas import decode_answer
from headgate.policy.stopwatch import seconds
from headgate.policy.wire import ANSWER

Open = Callable[[dict[str, Any]], Subject]
"""Finds what a launch request names; raises an error of Headgate's where it cannot."""

THREAD = 1
PATIENCE_S = 5.0
"""So long may an expression or any other look take; then the session ends, since nothing else can end it."""

_START_S = 20.0
CAPABILITIES = {
    "supportsConfigurationDoneRequest": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsEvaluateForHovers": True,
    "supportsExceptionInfoRequest": True,
    "supportsLoadedSourcesRequest": True,
    "supportsTerminateRequest": True,
    "supportsDelayedStackTraceLoading": True,
    "exceptionBreakpointFilters": [
        {"filter": "uncaught", "label": "Errors that end the decision", "default": True},
        {"filter": "caught", "label": "Errors that a pcall catches", "default": False},
    ],
}
_RESUMES = {"continue": "continue", "next": "over", "stepIn": "in", "stepOut": "out"}


class RequestFailed(Exception):
    """The request cannot be carried out; the message is for the user."""


class Adapter:
    """One debugging session with one client."""

    def __init__(self, open_subject: Open, send: Callable[[Message], None]) -> None:
        self._open = open_subject
        self._send = send
        self._number = 0
        self._commands = 0
        self._waiting: dict[int, Callable[[bool, list[Any]], None]] = {}
        self._due: float | None = None
        self._points: dict[int, list[list[Any]]] = {}
        self._places: Places | None = None
        self._arguments: dict[str, Any] = {}
        self._exception = ""
        self._configured = False
        self.session: Session | None = None
        self.finished = False
        self._requests: dict[str, Callable[[Message, dict[str, Any]], None]] = {
            "initialize": self._initialize, "launch": self._launch, "attach": self._launch,
            "setBreakpoints": self._set_breakpoints, "setExceptionBreakpoints": self._set_exceptions,
            "configurationDone": self._configuration_done, "threads": self._threads,
            "stackTrace": self._stack_trace, "scopes": self._scopes, "variables": self._variables,
            "evaluate": self._evaluate, "exceptionInfo": self._exception_info, "pause": self._pause,
            "source": self._source, "loadedSources": self._loaded_sources,
            "disconnect": self._disconnect, "terminate": self._terminate,
            **dict.fromkeys(_RESUMES, self._resume),
        }  # fmt: skip

    # -- the client ---------------------------------------------------------------------------------------------

    def handle(self, request: Message) -> None:
        """Carry out one request; every request gets its response."""
        if request.get("type") != "request":
            return
        act = self._requests.get(str(request.get("command")))
        arguments = request.get("arguments")
        if act is None:
            self._refuse(request, f"{request.get('command')!r} is not supported")
            return
        try:
            act(request, arguments if isinstance(arguments, dict) else {})
        except (RequestFailed, HeadgateError, SessionEnded) as error:
            self._refuse(request, str(error))
        except (TypeError, ValueError) as error:
            self._refuse(request, f"an argument is not what the protocol says: {error}")

    def _respond(self, request: Message, body: dict[str, Any] | None = None) -> None:
        self._answer(request, success=True, body=body or {})

    def _refuse(self, request: Message, why: str) -> None:
        error = {"id": 1, "format": why.replace("{", "("), "showUser": True}
        self._answer(request, success=False, message=why, body={"error": error})

    def _answer(self, request: Message, **fields: Any) -> None:
        self._post("response", request_seq=request.get("seq", 0), command=request.get("command", ""), **fields)

    def _event(self, name: str, **body: Any) -> None:
        self._post("event", event=name, body=body)

    def _post(self, kind: str, **fields: Any) -> None:
        self._number += 1
        self._send({"seq": self._number, "type": kind, **fields})

    # -- the Lua side -------------------------------------------------------------------------------------------

    @property
    def due(self) -> float | None:
        """When a reply is overdue."""
        return self._due if self._waiting else None

    def _tell(self, then: Callable[[bool, list[Any]], None], name: str, *arguments: Any) -> None:
        session = self._require()
        self._commands += 1
        self._waiting[self._commands] = then
        self._due = seconds() + PATIENCE_S
        session.command(self._commands, name, *arguments)

    def _ask(self, request: Message, make: Callable[[list[Any]], dict[str, Any]], name: str, *arguments: Any) -> None:
        """A request whose response is made of the reply of the Lua side."""

        def heard(ok: bool, result: list[Any]) -> None:
            if ok:
                self._respond(request, make(result))
            else:
                self._refuse(request, str(result[0]))

        self._tell(heard, name, *arguments)

    def _require(self) -> Session:
        if self.session is None:
            raise RequestFailed("nothing is being debugged: launch comes first")
        return self.session

    def _where(self) -> Places:
        if self._places is None:
            raise RequestFailed("nothing is being debugged: launch comes first")
        return self._places

    def hear(self) -> None:
        """Take in what the Lua side has reported."""
        if self.session is None:
            return
        if self.due is not None and seconds() > self.due:
            self._end(f"no answer within {PATIENCE_S:g} s: an expression that does not end?", 1)
            return
        try:
            for kind, payload in self.session.receive():
                self._hear(kind, payload)
        except SessionEnded as ended:
            self._end(str(ended), 1)

    def _hear(self, kind: int, payload: bytes) -> None:
        if kind == REPLY:
            number, ok, result = report(payload)
            self._waiting.pop(number)(ok, result)
        elif kind == STOPPED:
            self._stopped(*report(payload))
        elif kind == OUTPUT:
            self._event("output", category="console", output=report(payload)[0])
        elif kind == ANSWER:
            answer = decode_answer(payload)
            for level, text in answer.logs:
                self._event("output", category="stdout", output=f"log {level}: {text}\n")
            for action in answer.actions:
                self._event("output", category="stdout", output=f"answer: {action}\n")
            same = answer.error is None and self._require().subject.recorded in (None, answer.actions)
            self._end(verdict(self._require().subject, answer), 0 if same else 1)

    def _stopped(self, reason: str, text: str, number: int) -> None:
        self._exception = text
        body: dict[str, Any] = {"reason": reason, "threadId": THREAD, "allThreadsStopped": True}
        if text:
            body |= {"description": "Paused on an error", "text": text}
        if number:
            body["hitBreakpointIds"] = [number]
        self._event("stopped", **body)

    def _end(self, said: str, code: int) -> None:
        self._event("output", category="console", output=f"{said}\n")
        self._event("exited", exitCode=code)
        self._event("terminated")
        self.close()

    def close(self) -> None:
        """End the process, whatever the policy does. Nobody waits for an answer any more."""
        if self.session is not None:
            self.session.close()
        self.session = None
        self._waiting.clear()

    # -- beginning and end --------------------------------------------------------------------------------------

    def _initialize(self, request: Message, _: dict[str, Any]) -> None:
        self._respond(request, dict(CAPABILITIES))

    def _launch(self, request: Message, arguments: dict[str, Any]) -> None:
        if self.session is not None:
            raise RequestFailed("one decision at a time")
        subject = self._open(arguments)
        self._arguments = arguments
        view: View = "lua" if arguments.get("view") == "lua" else "source"
        self._places = Places(subject, view)
        self.session = Session(subject, "stepping")
        self.session.ask()
        self.session.next(_START_S)  # it stands before the first line; nothing may be told to it earlier
        self._respond(request)
        self._event("initialized")

    def _configuration_done(self, request: Message, _: dict[str, Any]) -> None:
        self._require()
        if self._configured:
            raise RequestFailed("launch comes first, and configurationDone once")
        self._configured = True
        self._tell(_ignore, "map", self._where().line_map())
        stops = bool(self._arguments.get("stopOnEntry"))
        self._respond(request)
        self._event("thread", reason="started", threadId=THREAD)
        self._tell(_ignore, "entry" if stops else "continue")

    def _disconnect(self, request: Message, _: dict[str, Any]) -> None:
        self.close()
        self.finished = True
        self._respond(request)

    def _terminate(self, request: Message, _: dict[str, Any]) -> None:
        self._respond(request)
        if self.session is not None:
            self._end("ended by the user", 1)

    # -- where to stop ------------------------------------------------------------------------------------------

    def _set_breakpoints(self, request: Message, arguments: dict[str, Any]) -> None:
        places = self._where()
        source = arguments.get("source") if isinstance(arguments.get("source"), dict) else {}
        wanted = [point for point in arguments.get("breakpoints") or [] if isinstance(point, dict)]
        number = places.find(source or {})
        if number is None:
            why = "this is not the policy that is being debugged: its text is another"
            self._respond(request, {"breakpoints": [{"verified": False, "message": why} for _ in wanted]})
            return
        lines = [places.to_lua(number, int(point.get("line", 1))) for point in wanted]
        own: list[list[Any]] = [
            [line.lua if line else 1 << 30, *(str(point.get(key) or "") for key in _TEXTS), number * 1000 + at]
            for at, (point, line) in enumerate(zip(wanted, lines, strict=True), 1)
        ]
        self._points[number] = own
        chunk = places.chunk(number)
        others = [n for n in self._points if n != number and places.chunk(n) == chunk]
        every = own + [point for n in others for point in self._points[n]]

        def made(result: list[Any]) -> dict[str, Any]:
            shown = [line.shown if line else None for line in lines]
            return {"breakpoints": [
                _breakpoint(point[4], at, why, instead, places.source(number))
                for point, (at, why), instead in zip(own, result[: len(own)], shown, strict=True)
            ]}  # fmt: skip

        self._ask(request, made, "breakpoints", chunk, every)

    def _set_exceptions(self, request: Message, arguments: dict[str, Any]) -> None:
        self._ask(request, lambda _: {}, "exceptions", [str(name) for name in arguments.get("filters") or []])

    # -- looking ------------------------------------------------------------------------------------------------

    def _threads(self, request: Message, _: dict[str, Any]) -> None:
        self._respond(request, {"threads": [{"id": THREAD, "name": "decision"}]})

    def _stack_trace(self, request: Message, arguments: dict[str, Any]) -> None:
        first, most = int(arguments.get("startFrame") or 0), int(arguments.get("levels") or 0) or None

        def made(rows: list[Any]) -> dict[str, Any]:
            frames = [self._frame(*row) for row in rows]
            return {"stackFrames": frames[first:][:most], "totalFrames": len(frames)}

        self._ask(request, made, "stack")

    def _frame(self, number: int, name: str, chunk: str, line: int, shown: int) -> dict[str, Any]:
        places = self._where()
        source, at, minor = places.of_frame(chunk, line, shown)
        rule = places.rule_at(chunk, line)
        found: dict[str, Any] = {"id": number, "name": name if rule is None else f'{name} (rule "{rule}")'}
        found |= {"source": source, "line": at, "column": 1}
        return found | {"presentationHint": "subtle"} if minor else found

    def _scopes(self, request: Message, arguments: dict[str, Any]) -> None:
        def made(rows: list[Any]) -> dict[str, Any]:
            hints = {"Locals": {"presentationHint": "locals"}}
            return {"scopes": [
                {"name": name, "variablesReference": handle, "expensive": name == "Globals", **hints.get(name, {})}
                for name, handle in rows
            ]}  # fmt: skip

        self._ask(request, made, "scopes", int(arguments.get("frameId") or 0))

    def _variables(self, request: Message, arguments: dict[str, Any]) -> None:
        start, count = int(arguments.get("start") or 0), int(arguments.get("count") or 0)
        handle = int(arguments.get("variablesReference") or 0)
        self._ask(
            request, lambda rows: {"variables": [_variable(*row) for row in rows]}, "variables", handle, start, count
        )

    def _evaluate(self, request: Message, arguments: dict[str, Any]) -> None:
        def made(row: list[Any]) -> dict[str, Any]:
            found = _variable(*row)
            return {"result": found.pop("value"), **found}

        expression = str(arguments.get("expression") or "")
        self._ask(request, made, "evaluate", int(arguments.get("frameId") or 0), expression)

    def _exception_info(self, request: Message, _: dict[str, Any]) -> None:
        self._respond(request, {"exceptionId": "error", "description": self._exception, "breakMode": "always"})

    def _source(self, request: Message, arguments: dict[str, Any]) -> None:
        given = arguments.get("source") or {}
        text = self._where().text(int(arguments.get("sourceReference") or given.get("sourceReference") or 0))
        if text is None:
            raise RequestFailed("there is no such source")
        self._respond(request, {"content": text, "mimeType": "text/x-lua"})

    def _loaded_sources(self, request: Message, _: dict[str, Any]) -> None:
        self._respond(request, {"sources": self._where().sources()})

    # -- going on -----------------------------------------------------------------------------------------------

    def _resume(self, request: Message, _: dict[str, Any]) -> None:
        if not self._configured:
            raise RequestFailed("configurationDone comes first")
        body = {"allThreadsContinued": True}
        self._ask(request, lambda _: body, _RESUMES[request["command"]])

    def _pause(self, request: Message, _: dict[str, Any]) -> None:
        self._ask(request, lambda _: {}, "pause")
        self._due = float("inf")  # a library call may take its time; the next line answers


_TEXTS = ("condition", "hitCondition", "logMessage")


def _ignore(_ok: bool, _result: list[Any]) -> None:
    """For commands whose reply says nothing."""


def _breakpoint(number: int, line: int, why: str, instead: int | None, source: dict[str, Any]) -> dict[str, Any]:
    if not line:
        return {"id": number, "verified": False, "message": why}
    return {"id": number, "verified": True, "line": instead or line, "source": source}


def _variable(name: str, value: str, kind: str, handle: int, items: int) -> dict[str, Any]:
    found = {"name": name, "value": value, "type": kind, "variablesReference": handle}
    return found | {"indexedVariables": items} if items else found
