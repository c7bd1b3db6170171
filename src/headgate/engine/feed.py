"""The live feed: committed events to whoever listens, each with a buffer that is bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from headgate.core.events import Event


class Subscription:
    """A listener's buffer. When it overflows, the oldest go and `lost` counts them: ask for a snapshot then."""

    def __init__(self, feed: Feed, limit: int, wants: Callable[[Event], bool] | None) -> None:
        self._feed = feed
        self._limit = limit
        self._wants = wants
        self._buffer: deque[tuple[int, Event]] = deque()
        self.lost = 0
        self.on_event: Callable[[], None] | None = None
        """Called after something was added; must be quick and must not raise."""

    def take(self) -> list[tuple[int, Event]]:
        """Everything buffered, with its number in the feed."""
        taken = list(self._buffer)
        self._buffer.clear()
        return taken

    def close(self) -> None:
        """Listen no more."""
        self._feed.unsubscribe(self)

    def push(self, numbered: list[tuple[int, Event]]) -> None:
        """Add what the listener wants."""
        wants = self._wants
        wanted = numbered if wants is None else [entry for entry in numbered if wants(entry[1])]
        if not wanted:
            return
        self._buffer.extend(wanted)
        while len(self._buffer) > self._limit:
            self._buffer.popleft()
            self.lost += 1
        if self.on_event is not None:
            self.on_event()


class Feed:
    """Numbers committed events and hands them out."""

    def __init__(self) -> None:
        self.number = 0
        self._subscriptions: list[Subscription] = []

    def subscribe(self, limit: int = 10_000, wants: Callable[[Event], bool] | None = None) -> Subscription:
        """Listen from now on."""
        subscription = Subscription(self, limit, wants)
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a listener; forgetting twice is the same as once."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def publish(self, events: list[Event]) -> None:
        """Hand out events that are durable."""
        first = self.number + 1
        self.number += len(events)
        if self._subscriptions:
            numbered = list(enumerate(events, first))
            for subscription in list(self._subscriptions):
                subscription.push(numbered)
