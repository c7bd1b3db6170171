"""The walls themselves: in a process of its own, each forbidden thing kills it or fails."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headgate.policy import landlock, lockdown, seccomp


def locked(act: Callable[[socket.socket], object], limits: lockdown.Limits | None = None) -> tuple[int, bytes]:
    """Fork, lock down, act; the wait status and what came out of the socket."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ours.close()
            lockdown.apply(theirs.fileno(), limits or lockdown.Limits())
            theirs.send(b"locked ")
            act(theirs)
            code = 0
        except OSError as error:
            theirs.send(f"refused {error.errno}".encode())
        except MemoryError:
            theirs.send(b"no memory")
        finally:
            os._exit(code)
    theirs.close()
    said = b""
    while data := ours.recv(4096):
        said += data
    ours.close()
    _, status = os.waitpid(pid, 0)
    return status, said


needs_seccomp = pytest.mark.skipif(seccomp.supported() is not None, reason="no system-call table for this machine")


def test_computing_and_its_socket_are_all_that_is_left() -> None:
    status, said = locked(lambda sock: sock.send(str(sum(range(1000))).encode()))
    assert (status, said) == (0, b"locked 499500")


FORBIDDEN: dict[str, Callable[[socket.socket], object]] = {
    "open": lambda _: os.open("/etc/hostname", os.O_RDONLY),
    "stat": lambda _: Path("/").stat(),
    "fork": lambda _: os.fork(),
    "exec": lambda _: os.execv("/bin/true", ["true"]),
    "kill": lambda _: os.kill(os.getppid(), 0),
    "socket": lambda _: socket.socket(),
    "duplicate": lambda sock: os.dup(sock.fileno()),
    "another descriptor": lambda _: os.write(77, b"x"),
    "identity": lambda _: os.getuid(),
    "pipe": lambda _: os.pipe(),
}


@needs_seccomp
@pytest.mark.parametrize("name", FORBIDDEN)
def test_any_other_system_call_kills_the_process(name: str) -> None:
    status, said = locked(FORBIDDEN[name])
    assert said == b"locked "
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGSYS


def test_memory_ends_at_its_limit() -> None:
    status, said = locked(lambda _: bytearray(512 << 20), lockdown.Limits(extra_bytes=64 << 20))
    assert said == b"locked no memory"
    assert os.WEXITSTATUS(status) == 1


def test_the_environment_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING", "secret")
    assert locked(lambda sock: sock.send(msgspec.json.encode(dict(os.environ))))[1] == b"locked {}"


def test_the_filters_of_both_machines_are_well_formed() -> None:
    for calls in seccomp.MACHINES.values():
        code = seccomp.program(calls, 5)
        assert len(code) % 8 == 0
        assert len(code) // 8 < 4096
        numbers = [*calls.plain.values(), *calls.on_socket.values(), calls.mmap]
        assert len(set(numbers)) == len(numbers)


def test_landlock_rules_grow_with_the_version_of_the_interface() -> None:
    assert [len(landlock.rules(version)) for version in (1, 3, 4, 6, 7)] == [8, 8, 16, 24, 24]


def test_landlock_alone_refuses_files(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        libc = lockdown._libc()
        libc.prctl(38, 1, 0, 0, 0)
        missing = landlock.install(libc)
        try:
            (tmp_path / "x").write_text("x")
            os._exit(2 if missing is None else 3)
        except OSError:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WEXITSTATUS(status) == 3:
        pytest.skip("the kernel has no landlock")
    assert os.WEXITSTATUS(status) == 0
