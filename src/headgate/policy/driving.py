"""One conversation, two ways to wait: the host's exchanges are written once, as generators that say what they
wait for.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Generator
from typing import TypeVar

from headgate.policy.stopwatch import seconds
from headgate.policy.wire import Channel

T = TypeVar("T")
Waiting = tuple[Channel, float]
Conversation = Generator[Waiting, None, T]


def drive(conversation: Conversation[T]) -> T:
    """Run to the end, blocking only where the conversation waits."""
    try:
        while True:
            channel, deadline = next(conversation)
            _poll(channel, deadline)
    except StopIteration as done:
        result: T = done.value
        return result


def _poll(channel: Channel, deadline: float) -> None:
    poller = select.poll()
    poller.register(channel, select.POLLIN | (select.POLLOUT if channel.unsent else 0))
    poller.poll(max(0.0, (deadline - seconds()) * 1000))


async def adrive(conversation: Conversation[T]) -> T:
    """The same on the running loop."""
    try:
        while True:
            channel, deadline = next(conversation)
            await _watch(channel, deadline)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        conversation.close()  # a cancelled task must not leave it half said


async def _watch(channel: Channel, deadline: float) -> None:
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    fd = channel.fileno()
    loop.add_reader(fd, wake)
    if channel.unsent:
        loop.add_writer(fd, wake)
    timer = loop.call_later(max(0.0, deadline - seconds()), wake)
    try:
        await woken
    finally:
        timer.cancel()
        loop.remove_reader(fd)
        loop.remove_writer(fd)
