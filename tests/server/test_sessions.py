"""Open WebSockets end with the token that opened them."""

from __future__ import annotations

import pytest
from websockets.exceptions import ConnectionClosed

from headgate.server import tokens
from headgate.server.sessions import NO_TOKEN
from tests.server.test_leases import register
from tests.server.world import Talk, World
from tests.turns import turns


def closed_with(talk: Talk) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        talk.hear("nothing")
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


@pytest.mark.parametrize("path", ["/v2/live", "/v2/workers/w/stream"])
def test_a_revoked_token_closes_what_it_opened(world: World, path: str) -> None:
    secret, other = world.token_for("read", "work"), world.token_for("read", "work")
    with world.client() as admin, world.socket("/v2/live", other) as bystander:
        register(admin, pull=False)
        with world.socket(path, secret) as talk:
            if path == "/v2/live":
                talk.hear("snapshot")
            assert admin.delete(f"/v2/admin/tokens/{tokens.split(secret)}").status_code == 204
            assert closed_with(talk) == NO_TOKEN
        assert bystander.hear()["type"] == "snapshot"
        bystander.connection.ping().wait(20)


def test_a_token_past_its_time_closes_what_it_opened(world: World) -> None:
    secret = tokens.new_secret()
    soon = world.engine.clock.now() + 1_000
    world.run(tokens.keep_token(world.engine, secret, ("read",), expires_at=soon))
    with world.socket("/v2/live", secret) as talk:
        talk.hear("snapshot")
        assert closed_with(talk) == NO_TOKEN
    assert world.engine.clock.now() >= soon


def test_a_socket_that_is_closed_is_forgotten(world: World) -> None:
    sessions = world.app.service.sessions
    with world.socket("/v2/live") as talk:
        talk.hear("snapshot")
        assert len(sessions._open) == 1
    for _ in range(10_000):
        if not sessions._open:
            return
        world.run(turns(1))
    pytest.fail("it is still there")
