"""The call that watches: a snapshot, then deltas."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headgate.server.live import TOPICS, Listener
from headgate.server.problems import ClientGone
from headgate.server.routing import Routes
from headgate.server.service import Service
from headgate.server.sockets import Socket

routes = Routes()
Topic = Literal["status", "jobs", "leases", "workers", "pools", "policy"]


class LiveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to watch, and where to go on."""

    topics: tuple[Topic, ...] = ()
    after: Annotated[int, Meta(ge=0, le=2**53)] | None = None


@routes.add("WS", "/v2/live", "read", query=LiveQuery)
async def live_feed(service: Service, socket: Socket) -> None:
    """Topics: a snapshot, then numbered deltas at most 4 times a second; `?after=` goes on where a client stopped."""
    await socket.accept()
    topics: tuple[str, ...] = socket.query.topics or TOPICS
    listener, fresh = service.live.listen(socket.caller, topics, socket.query.after)
    telling = asyncio.create_task(_tell(service, socket, listener, fresh=fresh))
    try:
        while await socket.receive() is not None:  # nothing is asked on this feed; what comes is let go
            pass
    finally:
        service.live.leave(listener)
        telling.cancel()


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
