"""Turns of an event loop, for tests that look at what happens, or does not, without any time passing."""

from __future__ import annotations

import asyncio


async def turns(number: int = 1) -> None:
    """Let the loop go round so often: everything that is ready runs, nothing that waits for a time does."""
    loop = asyncio.get_running_loop()
    for _ in range(number):
        turned = asyncio.Event()
        loop.call_soon(turned.set)
        await turned.wait()
