"""A storm of connections: whoever comes and goes as fast as it can does not hold up a heartbeat."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from tests.server.storm import storm_on
from tests.server.test_crowds import beats_flow
from tests.up.house import House


def test_heartbeats_flow_through_a_storm_of_connections(service: House) -> None:
    token = (service.directory / ".headgate" / "token").read_text(encoding="utf-8").strip()
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=service.facts["url"], headers=headers, timeout=20, trust_env=False) as client:
        beats_flow(client, lambda: storm_on(urlsplit(service.facts["url"]).port or 0))
