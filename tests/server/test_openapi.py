"""The description of the API is true: it is fuzzed from its own words, and no answer is one that it does not name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from headgate.core import job_input
from headgate.policy.arms import ExperimentingEngine
from headgate.server.app import ROUTES
from headgate.server.openapi import describe
from headgate.wire.http import JobIn
from headgate.wire.stream import Beats, Drain, Words
from tests.server.test_jobs import submit
from tests.server.test_leases import claim, register
from tests.server.world import World

DESCRIBED = describe(ROUTES, "0")
LEFT_OUT = {"/login"}
"""A form for browsers."""
OPERATIONS = sorted(
    (path, method) for path, methods in DESCRIBED["paths"].items() for method in methods if path not in LEFT_OUT
)
PROMISES = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]


def test_every_call_is_described_once() -> None:
    http = [route for route in ROUTES if route.method != "WS"]
    described = {(path, method.upper()) for path, methods in DESCRIBED["paths"].items() for method in methods}
    assert described == {(route.path, route.method) for route in http}
    names = [operation["operationId"] for methods in DESCRIBED["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))
    assert set(DESCRIBED["x-websockets"]) == {"/v2/workers/{id}/stream", "/v2/live"}


def test_messages_of_the_websockets_are_told_apart_by_their_type() -> None:
    schemas = DESCRIBED["components"]["schemas"]
    for name in ("WorkerMessage", "ServerMessage", "LiveMessage"):
        assert schemas[name]["discriminator"]["propertyName"] == "type"
    assert set(schemas["WorkerMessage"]["discriminator"]["mapping"]) == {"words", "beats", "drain"}
    assert {Words.__name__, Beats.__name__, Drain.__name__} <= set(schemas)


def test_every_reference_leads_somewhere() -> None:
    def references(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            for value in part.values():
                yield from references(value)
        elif isinstance(part, list):
            for value in part:
                yield from references(value)

    schemas = DESCRIBED["components"]["schemas"]
    assert {name.rpartition("/")[2] for name in references(DESCRIBED)} <= set(schemas)
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_a_job_is_described_with_every_field_that_is_taken() -> None:
    assert set(JobIn.__struct_fields__) == {*job_input._OWN, *job_input._KIND}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server with something of everything in it."""
    world = World(tmp_path_factory.mktemp("target"), policy=ExperimentingEngine(), max_wait=0.05, crowd=10_000).start()
    with world.client() as client:
        register(client, "w", slots=2)
        submit(client, [{}, {"run": {"kind": "external"}}])
        claim(client, wait_s=10)
        client.put("/v2/pools/default", json={})
        client.put("/v2/tenants/lab", json={})
        client.put("/v2/models/m", json={})
    yield world
    world.stop()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_call_breaks_its_own_description(target: World, path: str, method: str) -> None:
    fuzz(target, path, method, 12)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_call_breaks_its_own_description_however_long_it_is_tried(target: World, path: str, method: str) -> None:
    fuzz(target, path, method, 200)


def fuzz(target: World, path: str, method: str, examples: int) -> None:
    schema = schemathesis.openapi.from_dict(DESCRIBED)
    operation = schema[path][method.upper()]
    headers = {"Authorization": f"Bearer {target.token}"}

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        answer = case.call(base_url=target.url, headers=headers)
        case.validate_response(answer, checks=PROMISES)

    ask()
