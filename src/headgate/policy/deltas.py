"""The wire between the engine and the policy host: what changed, the question, the answer.

Deltas are msgpack arrays that begin with an integer tag, one after another in a frame; `lua/deltas.lua` reads
them in this order of fields. Times are milliseconds. A frame may end with one question, so that state and
question travel together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

CLASSES = ("high", "normal", "low", "background")


class Delta(msgspec.Struct, array_like=True, tag_field="delta", frozen=True, gc=False):
    """One change of what a policy may see."""


class JobAdded(Delta, tag=1, frozen=True, gc=False):
    """A job became ready. `class_index` is 0..3 for high, normal, low, background; order is class, rank
    (higher first), seq.
    """

    id: str
    class_index: int
    rank: int
    seq: int
    name: str | None = None
    type: str | None = None
    priority: str | None = None
    tenant: str = "default"
    units: float = 1
    resources: dict[str, float] = {}
    model_ref: str | None = None
    seed: int | None = None
    max_tokens: int | None = None
    labels: dict[str, str] = {}
    attributes: dict[str, Any] = {}
    created_at: int = 0
    queued_at: int = 0
    attempt: int = 0
    estimated_vram: float | None = None
    estimated_duration_ms: float | None = None
    pool: str | None = None
    requires: dict[str, str] = {}
    external: bool = False
    handler: bool = False


class JobRemoved(Delta, tag=2, frozen=True, gc=False):
    """A job left the ready queue, for whatever reason."""

    id: str


class JobChanged(Delta, tag=3, frozen=True, gc=False):
    """Fields of a queued job changed: name, value, name, value, ... with the names of `JobAdded`."""

    id: str
    changes: list[Any]


class RunningJob(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job that holds a slot of a worker; `ends_at` is the predicted end, if anybody can tell."""

    id: str
    class_index: int
    tenant: str
    units: float
    resources: dict[str, float]
    started_at: int
    ends_at: int | None = None
    checkpointable: bool = False
    stopping: bool = False


class WorkerSet(Delta, tag=4, frozen=True, gc=False):
    """A worker appeared or changed; the whole record. `slots_free` is what it may be given now, whatever
    holds the rest.
    """

    id: str
    pool_id: str
    status: str
    model_ref: str | None = None
    slots: int = 1
    slots_free: int = 1
    vram_free: float | None = None
    resources_free: dict[str, float] = {}
    gpu_ids: list[int | str] = []
    labels: dict[str, str] = {}
    current_jobs: list[RunningJob] = []
    jobs_completed: int = 0
    last_used_at: int = 0
    types: list[str] | None = None
    handlers: bool = True


class WorkerRemoved(Delta, tag=5, frozen=True, gc=False):
    """A worker is gone."""

    id: str


class Gpu(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One GPU of a pool."""

    id: int | str
    name: str
    vram_total: float
    vram_allocated: float
    vram_free: float
    utilization: float = 0.0


class PoolSet(Delta, tag=6, frozen=True, gc=False):
    """A pool appeared or changed. Its workers travel on their own; its age is counted from `heartbeat_at`."""

    id: str
    status: str
    heartbeat_at: int = 0
    gpus: list[Gpu] = []
    cached_models: list[str] = []
    labels: dict[str, str] = {}


class PoolRemoved(Delta, tag=7, frozen=True, gc=False):
    """A pool is gone."""

    id: str


class TenantSet(Delta, tag=8, frozen=True, gc=False):
    """A tenant's weight, decayed weighted share, quotas and usage (`jobs`, `units`, `vram`, any resource
    name).
    """

    id: str
    weight: float = 1.0
    share: float = 0.0
    quotas: dict[str, float] = {}
    usage: dict[str, float] = {}


class TenantRemoved(Delta, tag=9, frozen=True, gc=False):
    """A tenant is gone."""

    id: str


class ModelSet(Delta, tag=10, frozen=True, gc=False):
    """A model of the catalogue, its needs and its other names."""

    ref: str
    vram: float | None = None
    load_ms: int | None = None
    aliases: list[str] = []
    attributes: dict[str, Any] = {}


class ModelRemoved(Delta, tag=11, frozen=True, gc=False):
    """A model left the catalogue."""

    ref: str


class MetricsSet(Delta, tag=12, frozen=True, gc=False):
    """Metrics by name; others keep their value. Depths, worker counts and VRAM totals are counted by the
    mirror itself.
    """

    values: dict[str, float]


class ConfigSet(Delta, tag=13, frozen=True, gc=False):
    """Settings by name; others keep their value."""

    values: dict[str, Any]


class Reset(Delta, tag=14, frozen=True, gc=False):
    """Forget everything: a full state follows."""


class WorkerChanged(Delta, tag=15, frozen=True, gc=False):
    """Figures of a worker changed: name, value, name, value, ... with the names of `WorkerSet`."""

    id: str
    changes: list[Any]


class RunningSet(Delta, tag=16, frozen=True, gc=False):
    """A job began on a worker, or what is known of it changed; a new one comes last."""

    worker_id: str
    job: RunningJob


class RunningRemoved(Delta, tag=17, frozen=True, gc=False):
    """A job holds its slot no longer."""

    worker_id: str
    job_id: str


class Question(msgspec.Struct, array_like=True, tag=20, frozen=True, gc=False):
    """What happens next? Asked again with each answer applied, up to `max_answers` and `budget_ms`."""

    now_ms: int
    seed: int = 0
    max_answers: int = 64
    budget_ms: int = 20
    hour: int = 0
    weekday: int = 0


class Failure(msgspec.Struct, array_like=True, frozen=True):
    """Why the runtime has no answer: `error`, `invalid` or `memory`, a message and the Lua traceback."""

    kind: str
    message: str
    traceback: str = ""


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """What a policy said in one cycle. `actions` are unchecked until `answers.check` has seen them."""

    actions: list[dict[str, Any]]
    trace: list[str] = []
    logs: list[tuple[str, str]] = []
    metrics: list[tuple[str, float]] = []
    error: Failure | None = None
    took_us: int = 0
    runtime: str = ""
    stopped: str = ""
    dropped: int = 0


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_answer_decoder = msgspec.msgpack.Decoder(Answer)


def encode(deltas: Iterable[Delta | Question]) -> bytes:
    """Deltas (and perhaps a question, last) as they travel."""
    return b"".join(map(_encoder.encode, deltas))


def decode_answer(data: bytes) -> Answer:
    """Raises `msgspec.DecodeError` where the bytes are not an answer, bad UTF-8 and bottomless nesting
    included.
    """
    try:
        return _answer_decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(f"malformed: {error}") from error


def encode_struct(value: object) -> bytes:
    """Any small value that the processes tell each other."""
    return _encoder.encode(value)
