"""Exit codes: 0, 1 and 2 as everywhere, and from 64 on those of sysexits.h."""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
BAD_INPUT = 65
NOT_FOUND = 66
UNAVAILABLE = 69
BUG = 70
CANNOT_CREATE = 73
TRY_AGAIN = 75
FORBIDDEN = 77
BAD_CONFIG = 78
TIMED_OUT = 124
NOT_RUN = 125
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143

MEANINGS = {
    DONE: "done",
    FAILED: "the command ran and the answer is no: a check found something, a job failed, a change was refused",
    USAGE: "the command line was not understood",
    BAD_INPUT: "the input is wrong: a job, a policy, a damaged database",
    NOT_FOUND: "there is no such job, worker, tenant, policy or file",
    UNAVAILABLE: "the service is not there: nobody answers, the port is taken, another process owns the database",
    BUG: "the server failed at something that it should be able to do",
    CANNOT_CREATE: "a file or directory cannot be written",
    TRY_AGAIN: "not now: the queue is full, a quota is used up, the server is overloaded",
    FORBIDDEN: "the token is missing, wrong or not allowed to do this",
    BAD_CONFIG: "the configuration is wrong",
    TIMED_OUT: "`run`: the job took longer than `--timeout`; other commands: the time to wait is over",
    NOT_RUN: "`run`: the job ended without an exit code of its own (cancelled, expired, it could not be started)",
    INTERRUPTED: "interrupted with Ctrl-C",
    BROKEN_PIPE: "whoever read the output stopped reading",
    TERMINATED: "`run`: ended with SIGTERM, as `timeout` does; the job was cancelled",
}


NAMES = {
    FAILED: "failed",
    USAGE: "usage",
    BAD_INPUT: "bad_input",
    NOT_FOUND: "not_found",
    UNAVAILABLE: "unavailable",
    CANNOT_CREATE: "cannot_create",
    TRY_AGAIN: "try_again",
    FORBIDDEN: "forbidden",
    BAD_CONFIG: "bad_config",
    TIMED_OUT: "timed_out",
}
"""What `--json` calls a failure that has no code of the server's."""


class Failure(Exception):
    """The command ends here: one line for the user, and an exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.name = NAMES.get(code, "error")
