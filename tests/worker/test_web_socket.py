"""The WebSocket of a worker: whoever waits reads, many may send, and it ends when either side wants it to."""

from __future__ import annotations

import shutil
import socket as sockets
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.frames import Frame
from websockets.server import ServerProtocol
from websockets.sync.server import Server, ServerConnection, serve

from headgate.worker.web_socket import Ended, WebSocket, connect

WITHIN = 20.0
LARGE = 8 << 20
OPENSSL = shutil.which("openssl")
Talk = Callable[[ServerConnection], None]


@contextmanager
def served(talk: Talk, **options: Any) -> Iterator[Server]:
    """A server in a thread that says to each connection what it is told to say."""
    with serve(talk, "127.0.0.1", 0, max_size=None, **options) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def talking(talk: Talk, **options: Any) -> Iterator[WebSocket]:
    with served(talk, **options) as server, closing(connect(address(server), {}, WITHIN)) as socket:
        yield socket


def address(server: Server, scheme: str = "ws", host: str = "127.0.0.1") -> str:
    return f"{scheme}://{host}:{server.socket.getsockname()[1]}/"


def hear(socket: WebSocket, count: int = 1) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += socket.receive(WITHIN)
    return found


def echo(connection: ServerConnection) -> None:
    for message in connection:
        connection.send(message)


def test_what_is_said_arrives_and_what_comes_back_is_heard() -> None:
    with talking(echo) as socket:
        socket.send('"grüße"'.encode(), WITHIN)
        socket.send(b"2", WITHIN)
        assert hear(socket, 2) == ['"grüße"'.encode(), b"2"]


def test_where_nothing_comes_nothing_is_heard() -> None:
    with talking(echo) as socket:
        assert socket.receive(0.0) == []


def test_what_comes_with_the_handshake_is_not_lost() -> None:
    with talking(lambda connection: connection.send("at once")) as socket:
        assert hear(socket) == [b"at once"]


def test_a_message_in_pieces_arrives_whole() -> None:
    with talking(lambda connection: connection.send(iter(["one ", "two ", "three"]))) as socket:
        assert hear(socket) == [b"one two three"]


def test_a_ping_is_answered_by_whoever_receives() -> None:
    def ping(connection: ServerConnection) -> None:
        if connection.ping().wait(WITHIN):
            connection.send("answered")

    with talking(ping) as socket:
        assert hear(socket) == [b"answered"]


def test_a_ping_that_comes_with_the_handshake_is_answered_at_once() -> None:
    answered: list[bytes] = []

    def shake_and_ping(listener: sockets.socket) -> None:
        connection, _ = listener.accept()
        protocol = ServerProtocol()
        with connection:
            connection.settimeout(WITHIN)
            while not (events := protocol.events_received()):
                protocol.receive_data(connection.recv(65_536))
            protocol.send_response(protocol.accept(events[0]))  # type: ignore[arg-type]  # the first is the request
            protocol.send_ping(b"there?")
            connection.sendall(b"".join(protocol.data_to_send()))
            while not (events := protocol.events_received()):
                protocol.receive_data(connection.recv(65_536))
            answered.extend(bytes(event.data) for event in events if isinstance(event, Frame))

    with sockets.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=shake_and_ping, args=(listener,))
        server.start()
        with closing(connect(f"ws://127.0.0.1:{listener.getsockname()[1]}/", {}, WITHIN)):
            server.join(WITHIN)
    assert answered == [b"there?"]


def test_both_sides_may_send_more_than_the_network_holds_at_once() -> None:
    def at_once(connection: ServerConnection) -> None:
        connection.send("x" * LARGE)
        connection.send(str(len(connection.recv())))

    with talking(at_once) as socket:
        socket.send(b"y" * LARGE, WITHIN)
        first, second = hear(socket, 2)
        assert (len(first), second) == (LARGE, str(LARGE).encode())


def test_a_server_that_does_not_read_is_not_waited_for_for_ever() -> None:
    done = threading.Event()

    def silent(_: ServerConnection) -> None:
        done.wait(WITHIN)

    with talking(silent, max_queue=1, close_timeout=0.1) as socket:
        for _ in range(10):
            socket.send(b"z", WITHIN)
        with pytest.raises(Ended, match="does not read"):
            socket.send(b"z" * 4 * LARGE, 0.2)
        done.set()


def test_many_threads_may_send_at_once() -> None:
    texts = [b"%d" % number * 1_000 for number in range(50)]
    with talking(echo) as socket, ThreadPoolExecutor(8) as pool:
        sending = [pool.submit(socket.send, text, WITHIN) for text in texts]
        assert sorted(hear(socket, len(texts))) == sorted(texts)
        for sent in sending:
            sent.result(WITHIN)


def test_the_end_is_heard_after_everything_else() -> None:
    def say_and_go(connection: ServerConnection) -> None:
        connection.send("last words")
        connection.close(4404, "not registered")

    with talking(say_and_go) as socket:
        assert hear(socket) == [b"last words"]
        with pytest.raises(Ended, match="4404 not registered"):
            hear(socket)


def test_who_hangs_up_ends_the_wait_of_whoever_receives() -> None:
    left = threading.Event()

    def until_the_end(connection: ServerConnection) -> None:
        list(connection)
        left.set()

    with talking(until_the_end) as socket, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(hear, socket)
        socket.hang_up()
        with pytest.raises(Ended):
            waiting.result(WITHIN)
        assert left.wait(WITHIN)
        with pytest.raises(Ended):
            socket.send(b"too late", WITHIN)


def test_nothing_can_be_said_on_a_connection_that_was_closed() -> None:
    with talking(echo) as socket:
        socket.close()
        with pytest.raises(Ended):
            socket.send(b"1", WITHIN)
        socket.hang_up()


def test_a_server_that_refuses_is_told_by_its_status() -> None:
    refuse = {"process_request": lambda connection, _: connection.respond(403, "no\n")}
    with served(echo, **refuse) as server, pytest.raises(InvalidStatus, match="403"):
        connect(address(server), {}, WITHIN)


def test_headers_go_with_the_handshake() -> None:
    def tell(connection: ServerConnection) -> None:
        assert connection.request is not None
        connection.send(connection.request.headers["authorization"])

    with served(tell) as server, closing(connect(address(server), {"authorization": "Bearer x"}, WITHIN)) as socket:
        assert hear(socket) == [b"Bearer x"]


def test_what_is_no_web_server_is_named() -> None:
    with sockets.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        url = f"ws://127.0.0.1:{listener.getsockname()[1]}/"

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.close()

        pool.submit(hang_up)
        with pytest.raises((InvalidHandshake, ConnectionError)):
            connect(url, {}, WITHIN)
    with pytest.raises(ConnectionRefusedError):
        connect(url, {}, WITHIN)


@pytest.mark.skipif(OPENSSL is None, reason="openssl is needed to make a certificate")
def test_the_same_goes_through_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate)]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([str(OPENSSL), *made, *subject], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with served(echo, ssl=context) as server, closing(connect(address(server, "wss", "localhost"), {}, WITHIN)) as it:
        it.send(b"1" * LARGE, WITHIN)
        it.send(b"2", WITHIN)
        first, second = hear(it, 2)
        assert (len(first), second) == (LARGE, b"2")
        it.hang_up()
        with pytest.raises(Ended):
            hear(it)
