"""Functions as jobs: what `@app.job` makes of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar

from headgate.client.handles import AsyncJobHandle, JobHandle
from headgate.core.errors import InvalidJob

P = ParamSpec("P")
R = TypeVar("R")


def job_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a job as the SDK takes them: `retries` beside `retry`, handles beside ids."""
    job = dict(fields)
    retries = job.pop("retries", None)
    if retries is not None:
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise InvalidJob("must be a whole number that is not negative", field="retries")
        given = job.get("retry") or {}
        if not isinstance(given, Mapping):
            raise InvalidJob("give either retries or a number of attempts as retry", field="retries")
        job["retry"] = {**given, "attempts": retries + 1}
    given = job.get("dependencies")
    if isinstance(given, Iterable) and not isinstance(
        given, str | bytes | Mapping
    ):  # what is no list, the core refuses
        job["dependencies"] = [getattr(one, "id", one) for one in given]
    return job


class JobFunction(Generic[P, R]):
    """A function that can be called here, or submitted to run in a worker."""

    def __init__(
        self,
        function: Callable[P, R],
        name: str,
        fields: Mapping[str, Any],
        submit: Callable[[Mapping[str, Any]], JobHandle],
        asubmit: Callable[[Mapping[str, Any]], Any],
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name
        self._fields = dict(fields)
        self._submit = submit
        self._asubmit = asubmit

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The job that a submission with these arguments is, for `app.submit_many`."""
        payload = {"args": list(args), "kwargs": kwargs} if args or kwargs else None
        return {"name": self.name, "type": self.name, **self._fields, "run": {"kind": "python"}, "payload": payload}

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Have a worker run it."""
        return self._submit(self.job(*args, **kwargs))

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> AsyncJobHandle:
        """The same for coroutines; the handle is the one of `app.aio`."""
        return await self._asubmit(self.job(*args, **kwargs))  # type: ignore[no-any-return]

    def options(self, **fields: Any) -> JobFunction[P, R]:
        """The same function with other fields: `verify.options(priority="low").submit(...)`."""
        merged = {**self._fields, **job_fields(fields)}
        return JobFunction(self.function, self.name, merged, self._submit, self._asubmit)
