"""Bad input: each wrong job gets a typed error that names the field, and nothing has changed."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.commands import NewJob, Submit
from headgate.core.errors import DependencyError, InvalidInput, InvalidJob
from headgate.core.events import JobSubmitted, decode, encode
from headgate.core.job import CommandRun, ExternalRun, HttpRun, JobKind, JobSpec, PythonRun, Retry
from headgate.core.job_input import LIMITS, parse_job
from headgate.core.states import JobState
from headgate.testing import Harness, job, snapshot

NAN, INF = float("nan"), float("inf")


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


BOMB = deep(100_000)
NUMBERS: list[Any] = [True, False, [], {}, b"1", object(), None]
NO_TEXT: list[Any] = ["", "   ", "a\0b", "\ud800", "\x1b[31m", "a\nb", "x" * 257, 5, 1.5, None, True, [], {}, b"text"]
NO_COUNT: list[Any] = [-1, 2**63, 2**64, 10**400, 1.5, NAN, INF, "5", *NUMBERS]
NO_TIME: list[Any] = [-1, NAN, INF, 2**63, 10**400, "soon", "", *[n for n in NUMBERS if n is not None]]
NO_MAPPING: list[Any] = ["text", 5, [], [1], True, None, b"{}"]

WRONG: dict[str, list[Any]] = {
    "name": NO_TEXT,
    "type": NO_TEXT,
    "tenant": NO_TEXT,
    "model_ref": [wrong for wrong in NO_TEXT if wrong is not None],
    "pool": [wrong for wrong in NO_TEXT if wrong is not None],
    "idempotency_key": [wrong for wrong in NO_TEXT if wrong is not None],
    "units": NO_COUNT,
    "max_tokens": [wrong for wrong in NO_COUNT if wrong is not None],
    "rank": [2**63, -(2**63), 1.5, NAN, "1", *NUMBERS],
    "seed": [2**63, -(2**63), 1.5, "1", *[n for n in NUMBERS if n is not None]],
    "priority": ["urgent", "HIGH", "", 0, 6, -1, 2**63, 1.0, NAN, *NUMBERS],
    "timeout": NO_TIME,
    "estimated_duration": NO_TIME,
    "not_before": [*NO_TIME, "2023-02-30", "1900-01-01"],
    "deadline": [*NO_TIME, "2023-02-30", "1900-01-01"],
    "checkpointable": [0, 1, "true", None, [], {}],
    "on_dependency_failure": ["ignore", "", None, 0, True, [], {}],
    "payload": [
        NAN,
        [INF],
        {"a": -INF},
        2**64,
        -(2**63) - 1,
        {1: 2},
        object(),
        "\ud800",
        {"\ud800": 1},
        BOMB,
        deep(80),
    ],
    "attributes": [
        *(wrong for wrong in NO_MAPPING if wrong != b"{}"),
        {"a": NAN},
        {1: 1},
        {"a": deep(80)},
        {"a": "x" * 70_000},
    ],
    "resources": [*NO_MAPPING, {"": 1}, {5: 1}, {"a\0": 1}, {str(n): 1 for n in range(65)}],
    "requires": [*NO_MAPPING, {"": "a"}, {5: "a"}, {str(n): "a" for n in range(65)}],
    "labels": [*NO_MAPPING, {"": "a"}, {5: "a"}, {str(n): "a" for n in range(65)}],
    "dependencies": [
        "abc",
        b"abc",
        5,
        None,
        True,
        {"a": 1},
        [5],
        [None],
        [[]],
        [{}],
        [""],
        ["a\0"],
        ["\ud800"],
        ["x" * 300],
    ],
    "retry": [None, True, "3", 1.5, [], object()],
    "run": [None, "python", 5, True, [], object()],
}

NO_LABEL: list[Any] = [5, None, [], {}, "a\0", "\ud800", "x" * 257, " "]
NO_OUTCOMES: list[Any] = [5, None, "failed", ["cancelled"], [[]], [5], {"failed": 1}]
NO_KIND: list[Any] = ["perl", "", None, 5, [], {}]
NO_ARGV: list[Any] = ["ls", [], None, [5], ["a\0"], ["\ud800"], [["x"]]]
NO_URL: list[Any] = ["", "ftp://x", "javascript:1", 5, None, "http://\0"]

NESTED: list[tuple[dict[str, Any], str]] = [
    *[
        ({"resources": {"cpu": wrong}}, "resources.cpu")
        for wrong in [-1, NAN, INF, 2**63, 10**400, "lots", "-1GB", *NUMBERS]
    ],
    *[({"labels": {"k": wrong}}, "labels.k") for wrong in NO_LABEL],
    *[({"requires": {"k": wrong}}, "requires.k") for wrong in [5, None, "a\nb"]],
    ({"retry": 0}, "retry.attempts"),
    ({"retry": -1}, "retry.attempts"),
    ({"retry": 2**63}, "retry.attempts"),
    ({"retry": {"attempts": "3"}}, "retry.attempts"),
    ({"retry": {"attempts": True}}, "retry.attempts"),
    ({"retry": {"initial": -1}}, "retry.initial"),
    ({"retry": {"initial": NAN}}, "retry.initial"),
    ({"retry": {"max": 10**400}}, "retry.max"),
    ({"retry": {"factor": 0.5}}, "retry.factor"),
    ({"retry": {"factor": INF}}, "retry.factor"),
    ({"retry": {"factor": None}}, "retry.factor"),
    ({"retry": {"jitter": 1.5}}, "retry.jitter"),
    ({"retry": {"jitter": NAN}}, "retry.jitter"),
    *[({"retry": {"on": wrong}}, "retry.on") for wrong in NO_OUTCOMES],
    ({"retry": {"atempts": 3}}, "retry.atempts"),
    ({"retry": {5: 3}}, "retry.5"),
    *[({"run": {"kind": wrong}}, "run.kind") for wrong in NO_KIND],
    ({"run": {}}, "run.kind"),
    ({"run": {"kind": "python", "handler": 5}}, "run.handler"),
    ({"run": {"kind": "python", "handlr": "x"}}, "run.handlr"),
    ({"run": {"kind": "external", "argv": ["x"]}}, "run.argv"),
    ({"run": {"kind": "command"}}, "run.argv"),
    *[({"run": {"kind": "command", "argv": wrong}}, "run.argv") for wrong in NO_ARGV],
    ({"run": {"kind": "command", "argv": ["x" * 70_000] * 2}}, "run.argv"),
    ({"run": {"kind": "command", "argv": ["x"], "env": {"A": 5}}}, "run.env.A"),
    ({"run": {"kind": "command", "argv": ["x"], "cwd": 5}}, "run.cwd"),
    ({"run": {"kind": "http"}}, "run.url"),
    *[({"run": {"kind": "http", "url": wrong}}, "run.url") for wrong in NO_URL],
    ({"run": {"kind": "http", "url": "http://x", "method": "TRACE"}}, "run.method"),
    ({"run": {"kind": "http", "url": "http://x", "method": 5}}, "run.method"),
    ({"run": {"kind": "http", "url": "http://x", "headers": ["a"]}}, "run.headers"),
    ({"run": {"kind": "http", "url": "http://x", "body": 5}}, "run.body"),
]

CASES = [({field: wrong}, field) for field, values in WRONG.items() for wrong in values] + NESTED


@pytest.mark.parametrize(("given_job", "field"), CASES, ids=[f"{field}-{n}" for n, (_, field) in enumerate(CASES)])
def test_every_wrong_value_is_refused_with_the_name_of_its_field(given_job: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        parse_job(given_job)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")
    assert len(str(caught.value)) < 1_000


def test_every_field_of_the_model_has_wrong_values_here() -> None:
    fields = {*JobKind.__struct_fields__, *JobSpec.__struct_fields__} - {"kind"}
    assert fields == set(WRONG)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("unit", "units"),
        ("dependancies", "dependencies"),
        ("Priority", "priority"),
        ("idempotency-key", "idempotency_key"),
    ],
)
def test_an_unknown_field_is_refused_with_a_suggestion(wrong: str, meant: str) -> None:
    with pytest.raises(InvalidJob, match=f"did you mean '{meant}'") as caught:
        parse_job({"name": "j", wrong: 1})
    assert caught.value.field == wrong


@pytest.mark.parametrize("wrong", ["zzz", "", 5, None, "x" * 10_000, "\ud800"])
def test_an_unknown_field_like_no_other_is_refused_plainly(wrong: Any) -> None:
    with pytest.raises(InvalidJob, match="unknown field") as caught:
        parse_job({wrong: 1})
    assert len(caught.value.field) <= 64


@pytest.mark.parametrize("wrong", [None, 5, "job", [], [{}], b"{}", True])
def test_what_is_no_object_is_no_job(wrong: Any) -> None:
    with pytest.raises(InvalidJob, match="a job is an object"):
        parse_job(wrong)


def test_a_payload_of_ten_megabytes_is_refused_and_one_at_the_limit_is_not() -> None:
    with pytest.raises(InvalidJob, match="more than the 1048576 allowed") as caught:
        parse_job({"payload": "x" * 10_000_000})
    assert caught.value.field == "payload"
    at_the_limit = "x" * (LIMITS.payload - 2)
    assert len(parse_job({"payload": at_the_limit}).payload) == LIMITS.payload
    with pytest.raises(InvalidJob):
        parse_job({"payload": at_the_limit + "x"})


def test_too_many_dependencies_are_refused() -> None:
    with pytest.raises(InvalidJob, match="at most 200000") as caught:
        parse_job({"dependencies": [str(n) for n in range(200_001)]})
    assert caught.value.field == "dependencies"


def test_limits_may_be_set() -> None:
    limits = msgspec.structs.replace(LIMITS, payload=10, text=3)
    with pytest.raises(InvalidJob, match="payload"):
        parse_job({"payload": "0123456789"}, limits)
    with pytest.raises(InvalidJob, match="name"):
        parse_job({"name": "four"}, limits)


def test_a_bad_job_in_a_bulk_leaves_the_state_as_it_was() -> None:
    h = Harness()
    h.submit(job("first"))
    before = snapshot(h.state)
    for wrong in ({"dependencies": ["nobody"]}, {"dependencies": ["second"]}, {"dependencies": ["x"]}):
        specs = [job("ok"), parse_job(wrong), job("x", after=["second"])]
        with pytest.raises((InvalidJob, DependencyError)) as caught:
            h.tell(Submit(tuple(NewJob(id_, spec) for id_, spec in zip(("ok", "second", "x"), specs, strict=True))))
        assert isinstance(caught.value, InvalidInput)
        assert caught.value.field == "dependencies"
        assert snapshot(h.state) == before


# -- what is right -------------------------------------------------------------------------------------------------


def test_an_empty_job_has_the_defaults_of_the_domain() -> None:
    spec = parse_job({})
    assert spec == JobSpec(JobKind(), "generic")
    assert (spec.kind.units, spec.kind.priority, spec.kind.tenant, spec.kind.retry.attempts) == (
        1,
        "normal",
        "default",
        1,
    )
    assert parse_job({"type": "proof"}).name == "proof"


@pytest.mark.parametrize(
    ("written", "name", "job_class"),
    [
        ("high", "high", 0),
        ("interactive", "interactive", 0),
        (5, "highest", 0),
        (4, "high", 0),
        ("normal", "normal", 1),
        (3, "normal", 1),
        ("low", "low", 2),
        ("batch", "batch", 2),
        (2, "low", 2),
        ("background", "background", 3),
        (1, "lowest", 3),
        ("lowest", "lowest", 3),
    ],
)
def test_priorities_keep_their_name_and_have_a_class(written: Any, name: str, job_class: int) -> None:
    kind = parse_job({"priority": written}).kind
    assert (kind.priority, kind.job_class) == (name, job_class)


def test_a_full_job_is_read_as_written() -> None:
    spec = parse_job(
        {
            "name": "n",
            "type": "t",
            "run": {"kind": "command", "argv": ["ls", ""], "env": {"B": "", "A": "1"}, "cwd": "/tmp"},
            "payload": {"a": [1, None, "ü"]},
            "resources": {"memory": "2GiB", "cpu": 0.5, "none": 0},
            "labels": {"z": "1", "a": ""},
            "dependencies": ["b", "a", "b"],
            "not_before": 5,
            "deadline": "1970-01-01T00:01:00Z",
            "timeout": "5m",
            "retry": {"attempts": 3, "initial": "100ms", "on": ["failed", "failed"]},
            "seed": -1,
        }
    )
    assert spec.kind.run == CommandRun(("ls", ""), (("A", "1"), ("B", "")), "/tmp")
    assert json.loads(spec.payload) == {"a": [1, None, "ü"]}
    assert spec.kind.resources == (("cpu", 0.5), ("memory", 2**31))
    assert spec.kind.labels == (("a", ""), ("z", "1"))
    assert spec.dependencies == ("b", "a")
    assert (spec.not_before, spec.deadline, spec.kind.timeout) == (5_000, 60_000, 300_000)
    assert spec.kind.retry == Retry(3, 100, on=("failed",))


def test_each_kind_of_run_is_read() -> None:
    assert parse_job({"run": {"kind": "python", "handler": "a.b:c"}}).kind.run == PythonRun("a.b:c")
    assert parse_job({"run": {"kind": "external"}}).kind.external
    assert parse_job({"run": ExternalRun()}).kind.external
    http = parse_job({"run": {"kind": "http", "url": "https://x", "method": "put", "headers": {"A": "b"}}}).kind.run
    assert http == HttpRun("https://x", "PUT", (("A", "b"),))


def test_equal_jobs_are_equal_however_they_were_written() -> None:
    one = parse_job({"labels": {"a": "1", "b": "2"}, "resources": {"memory": "1KB", "cpu": 1}})
    two = parse_job({"resources": {"cpu": 1.0, "memory": 1_000}, "labels": {"b": "2", "a": "1"}})
    assert one == two
    assert hash(one.kind) == hash(two.kind)


# -- anything at all -----------------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.sampled_from([2**63, 10**400, "8GB", "5m"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=8,
)
INNER = [
    "kind",
    "argv",
    "url",
    "env",
    "attempts",
    "on",
    "factor",
    "max",
    "initial",
    "cpu",
    "handler",
    "body",
    "headers",
]
SHAPED = st.dictionaries(
    st.sampled_from(INNER), ANY_JSON | st.sampled_from(["command", "http", "python", "external", "http://x", ["ls"]])
)
FIELDS = st.sampled_from(sorted(WRONG)) | ANY_TEXT


def parsed(given_job: Any) -> JobSpec | InvalidJob:
    """What the door answers; any other exception is a bug and ends the test."""
    try:
        return parse_job(given_job)
    except InvalidJob as error:
        return error


@settings(max_examples=600)
@given(st.dictionaries(FIELDS, ANY_JSON | SHAPED, max_size=3) | ANY_JSON)
def test_from_anything_comes_a_job_or_invalid_job(given_job: Any) -> None:
    spec = parsed(given_job)
    if isinstance(spec, InvalidJob):
        assert spec.code == "invalid_job"
        return
    event = JobSubmitted(1, "id", 1, spec, JobState.QUEUED)
    (back,) = decode(encode([event]))
    assert back == event
    msgspec.json.decode(spec.payload)
    msgspec.json.decode(spec.attributes)


PLAIN_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "units": st.integers(0, 50),
    "rank": st.integers(-5, 5),
    "priority": st.sampled_from(["high", "batch", 1, 5]),
    "resources": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.floats(0, 100) | st.just("8GB")),
    "timeout": st.floats(0.001, 1e6),
    "labels": st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x"])),
    "payload": st.recursive(st.none() | st.integers(0, 9), lambda inner: st.lists(inner, max_size=3), max_leaves=5),
    "retry": st.integers(1, 1_000),
}


@settings(max_examples=150)
@given(st.fixed_dictionaries({}, optional=PLAIN_VALUES))
def test_a_good_job_is_taken_and_can_be_submitted(given_job: dict[str, Any]) -> None:
    h = Harness()
    h.submit(parse_job(given_job))
    h.is_("queued", "generic")


@settings(max_examples=150)
@given(st.fixed_dictionaries({}, optional=PLAIN_VALUES), FIELDS, ANY_JSON | SHAPED)
def test_one_wrong_field_among_good_ones_is_the_one_that_is_named(good: dict[str, Any], field: str, value: Any) -> None:
    answer = parsed({**good, field: value})
    if isinstance(answer, InvalidJob):
        assert answer.field.startswith((field[:64], "deadline"))


@pytest.mark.parametrize("value", [{1, 2}, frozenset("a"), {"a": [{1}]}, [b"x"], {"a": bytearray(b"x")}])
@pytest.mark.parametrize("field", ["payload", "attributes"])
def test_what_json_has_not_is_refused_and_not_turned_into_something_else(field: str, value: object) -> None:
    with pytest.raises(InvalidJob) as refused:
        parse_job({field: {"deep": value}})
    assert refused.value.field == field


@pytest.mark.parametrize("value", [0, 0.0, "0s", 1e-9])
def test_a_timeout_of_nothing_is_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match="timeout: must be greater than zero"):
        parse_job({"timeout": value})
