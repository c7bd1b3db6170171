"""What every call can reach: the engine, the policies, and what the server itself keeps in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from headgate.core.state import State
from headgate.engine.aio import AsyncEngine
from headgate.engine.questions import Question, answer
from headgate.policy.managing import Policies
from headgate.ports import Ids
from headgate.server.audit import Audit
from headgate.server.chronicle import Chronicle
from headgate.server.deliveries import Deliveries
from headgate.server.gate import Gate
from headgate.server.intake import Intake
from headgate.server.live import Live
from headgate.server.logs import get_logger
from headgate.server.metrics import Metrics
from headgate.server.observing import AppLoad
from headgate.server.problems import Unavailable
from headgate.server.sessions import Sessions
from headgate.server.settings import ServerSettings
from headgate.server.simulations import Simulations, Simulator
from headgate.server.watching import Watching

P = ParamSpec("P")
R = TypeVar("R")
READERS = 4


class Service:
    """One engine and everything around it that serves."""

    def __init__(
        self,
        engine: AsyncEngine,
        policies: Policies | None,
        settings: ServerSettings,
        ids: Ids,
        simulator: Simulator | None = None,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.ids = ids
        self.gate = Gate(settings)
        self.intake = Intake(settings)
        self.deliveries = Deliveries(engine)
        self.metrics = Metrics(engine, self.intake, policies)
        self.simulations = Simulations(settings, simulator)
        self.live = Live(engine, settings, policies, self.simulations)
        self.sessions = Sessions(engine)
        self.load = AppLoad(engine)
        self.audit = Audit(engine)
        self.log: Any = get_logger("headgate.server")
        self.description: dict[str, Any] = {}
        """What the API can do, as OpenAPI."""
        self._policies = policies
        self._watching = Watching(
            engine, (self.deliveries, self.metrics, self.live, self.sessions, Chronicle(self.log))
        )
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="headgate-reader")
        self._started = False

    def start(self) -> None:
        """Begin to follow the engine. Starting twice is the same as once."""
        if not self._started:
            self._started = True
            self._watching.start()

    async def stop(self) -> None:
        """End every stream and let go."""
        self._watching.stop()
        self.load.stop()
        await self.live.stop()
        await self.simulations.stop()
        await self.deliveries.stop()
        self._readers.shutdown(wait=False, cancel_futures=True)

    @property
    def state(self) -> State:
        """The state as it is, also while the engine does not serve."""
        return self.engine.writer.state

    @property
    def policies(self) -> Policies:
        """The policies, if this server has any."""
        if self._policies is None:
            raise Unavailable("this server runs without policies")
        return self._policies

    @property
    def has_policies(self) -> bool:
        """Whether policies decide here."""
        return self._policies is not None

    def now(self) -> int:
        """Milliseconds since 1970."""
        return self.engine.clock.now()

    async def ask(self, question: Question[R]) -> R:
        """Answer a question that the store answers alone, beside the work of the loop."""
        return await self.aside(answer, question, self.state, self.engine.writer.store, self.now())

    async def aside(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do something that blocks in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, lambda: work(*args, **kwargs))
