"""What a worker says of its leases, as commands of the core."""

from __future__ import annotations

from headgate.core import commands as c
from headgate.core.errors import InvalidInput
from headgate.core.events import Failure
from headgate.core.job_input import unknown
from headgate.wire.http import ErrorOut
from headgate.wire.stream import Word

VERBS = ("start", "complete", "fail", "release", "progress")
Command = c.Start | c.Progress | c.Complete | c.Fail | c.Release


def failure_of(error: ErrorOut) -> Failure:
    """Why an attempt failed, as it is kept."""
    return Failure(error.code, error.message, error.traceback, error.exit_status)


def command_of(word: Word) -> Command:
    """A word as a command; `InvalidInput` if it makes no sense."""
    match word.verb:
        case "start":
            return c.Start(word.lease_id, word.token)
        case "complete":
            return c.Complete(word.lease_id, word.token, bytes(word.result))
        case "fail":
            if word.error is None:
                raise InvalidInput("is missing", field="error")
            return c.Fail(word.lease_id, word.token, failure_of(word.error), word.retry)
        case "release":
            return c.Release(word.lease_id, word.token)
        case "progress":
            return c.Progress(word.lease_id, word.token, word.fraction, word.note)
    raise InvalidInput(unknown(word.verb, VERBS, "verb"), field="verb")
