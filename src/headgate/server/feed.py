"""The call that watches: a snapshot, then deltas; and the playback of simulations."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.core.errors import HeadgateError
from headgate.server import strict
from headgate.server.live import TOPICS, Listener
from headgate.server.problems import ClientGone, problem_of
from headgate.server.routing import Routes
from headgate.server.service import Service
from headgate.server.simulations import TOPIC
from headgate.server.sockets import Socket
from headgate.wire.simulating import PlaybackIn
from headgate.wire.stream import NotDone, Playback

routes = Routes()
Topic = Annotated[str, Meta(pattern=rf"^({'|'.join(TOPICS)}|{TOPIC}[A-Za-z0-9_-]+)$", max_length=100)]


class LiveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to watch, and where to go on."""

    topics: tuple[Topic, ...] = ()
    after: Annotated[int, Meta(ge=0, le=2**53)] | None = None


@routes.add("WS", "/v2/live", "read", "policy:edit", query=LiveQuery)
async def live_feed(service: Service, socket: Socket) -> None:
    """Topics: a snapshot, then numbered deltas at most 4 times a second; `?after=` goes on where a client stopped."""
    await socket.accept()
    topics: tuple[str, ...] = socket.query.topics or TOPICS
    _may_watch(service, socket, topics)
    listener, fresh = service.live.listen(socket.caller, topics, socket.query.after)
    telling = asyncio.create_task(_tell(service, socket, listener, fresh=fresh))
    try:
        while (message := await socket.receive()) is not None:
            await _do(service, socket, message)
    finally:
        service.live.leave(listener)
        telling.cancel()


def _may_watch(service: Service, socket: Socket, topics: tuple[str, ...]) -> None:
    """Simulations are for those who may edit policies, everything else for those who may read."""
    runs = [topic.removeprefix(TOPIC) for topic in topics if topic.startswith(TOPIC)]
    if runs:
        socket.caller.allow(("policy:edit",), tenants=False)
    if len(runs) < len(topics):
        socket.caller.allow(("read",))
    for run_id in runs:
        service.simulations.get(run_id)


async def _do(service: Service, socket: Socket, message: bytes) -> None:
    """The one thing that can be asked on this feed: how a simulation is played."""
    try:
        asked = strict.read_as(message, Playback)
        socket.caller.allow(("policy:edit",), tenants=False)
        run = service.simulations.get(asked.run)
        run.player.control(PlaybackIn(asked.playing, asked.speed, asked.step, asked.seek))
    except HeadgateError as error:
        await socket.send(NotDone(problem_of(error)))


async def _tell(service: Service, socket: Socket, listener: Listener, *, fresh: bool) -> None:
    try:
        if fresh:
            await socket.send(service.live.snapshot(listener))
        while True:
            await listener.changed.wait()
            listener.changed.clear()
            while listener.frames:
                frame = listener.frames.popleft()
                live = service.live
                await socket.send(live.snapshot(listener) if frame is None else live.deltas(listener, frame))
    except ClientGone:
        await socket.close(1008, "too slow")
    except HeadgateError as error:  # the store cannot be read: whoever watches comes back later
        await socket.close(1011, str(error))
    except Exception:
        service.log.exception("bug", call="live_feed")
        await socket.close(1011, "something went wrong in the server")
