"""A storm of connections: whoever comes and goes as fast as it can does not hold up a heartbeat."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import urlsplit

import httpx

from tests.server.test_jobs import submit
from tests.server.test_leases import claim, register, word
from tests.up.house import House

KNOCK = """
import select, socket, sys
words = (b"", b"GET /v2/jo", b"GET /healthz HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
count = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as caller:
        caller.sendall(words[count % 3])
    count += 1
    if count == 100:
        print("it blows", flush=True)
print(count)
"""
"""Without a word, half way through one, or with a request, until the input ends."""


def test_heartbeats_flow_through_a_storm_of_connections(service: House) -> None:
    token = (service.directory / ".headgate" / "token").read_text(encoding="utf-8").strip()
    command = [sys.executable, "-c", KNOCK, str(urlsplit(service.facts["url"]).port)]
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=service.facts["url"], headers=headers, timeout=20, trust_env=False) as client:
        register(client, labels={"place": "here"})
        submit(client, {"requires": {"place": "here"}})
        lease = claim(client)["lease"]
        word(client, lease, "start")
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
            assert caller.stdout is not None
            assert caller.stdout.readline() == b"it blows\n"
            answers = [word(client, lease, "heartbeat") for _ in range(300)]
            came, _ = caller.communicate()
        assert word(client, lease, "complete").status_code == 200
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(answer.elapsed.total_seconds() for answer in answers)[150] < 0.5
    assert int(came) > 100
