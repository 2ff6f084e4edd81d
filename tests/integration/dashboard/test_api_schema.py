"""The API against its own description: whatever fits it, and much that does not, is answered as it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import requests
import schemathesis
from schemathesis import Case, Response
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import FailureGroup
from schemathesis.engine import events, from_schema
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from support.dashboards import API, SOURCE, TOKENS, served, settings_for, with_users
from support.principals import running_principal
from support.properties import EXPLORING

from afl.dashboard.api.description import description
from afl.operations.catalog import PUBLIC
from afl.operations.roles import Role
from afl.operations.work import remote_polls

# What is refused for its meaning (a source that does not compile) fits the schema all the same: the check that good
# data is accepted would call that wrong.
CHECKS = {"positive_data_acceptance": {"enabled": False}, "ignored_auth": {"enabled": False}}
OTHER_PHASES = {"examples": {"enabled": False}, "stateful": {"enabled": False}}
CONFIG = {
    "seed": 7,
    "checks": CHECKS,
    "phases": OTHER_PHASES,
    "generation": {"deterministic": True, "max-examples": 4, "no-shrink": True, "database": "none"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the stores are, while a principal of a fleet is there to be asked."""
    folder = tmp_path_factory.mktemp("schema")
    with running_principal(folder) as principal, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDKTR_PRINCIPAL_PORT", str(principal.settings.principal_port))
        yield folder


@pytest.fixture(scope="module")
def address(folder: Path, redis_url: str) -> Iterator[str]:
    """A server with everything behind it, and a run in it that is over: nobody waits for that one."""
    settings = settings_for(f"sqlite:///{folder}/afl.db", redis=redis_url)
    with pytest.MonkeyPatch.context() as patch, served(settings) as url:
        patch.setattr(remote_polls, "LONGEST_POLL_SECONDS", 0.1)  # there is no task for any facet
        run = requests.post(f"{url}{API}/runs", json={"source": SOURCE}).json()["run"]
        assert requests.post(f"{url}{API}/runs/{run}/cancel").json()["changed"] is True
        yield url


@pytest.fixture(scope="module")
def guarded(folder: Path, redis_url: str) -> Iterator[str]:
    """A server with a user for each role."""
    with served(with_users(f"sqlite:///{folder}/guarded.db", redis=redis_url)) as url:
        yield url


def without_long_patterns(schema: Any) -> Any:
    """The same demands, a pattern of a long text said as what it must not hold.

    Of length and pattern schemathesis makes one expression, `[^\\x00]{0,65536}`, and half a second of work each time.
    """
    if isinstance(schema, list):
        return [without_long_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    same = {key: without_long_patterns(each) for key, each in schema.items()}
    if same.get("pattern") == r"\A[^\x00]*\Z":
        del same["pattern"]
        same["not"] = {"pattern": r"\x00"}
    return same


def asked_and_wrong(address: str, off: str, labels: set[str]) -> tuple[set[str], list[str]]:
    """Which of the operations were asked without one phase, and what was wrong with the answers."""
    phases = {**OTHER_PHASES, off: {"enabled": False}}
    config = SchemathesisConfig.from_dict({**CONFIG, "phases": phases})
    schema = schemathesis.openapi.from_dict(without_long_patterns(description()), config=config)
    schema = schema.include(lambda ctx: ctx.operation.label in labels)
    schema.config.update(base_url=address)
    asked: set[str] = set()
    problems: list[str] = []
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            asked |= {event.recorder.label} if event.recorder.interactions else set()
            checks = [each for nodes in event.recorder.checks.values() for each in nodes]
            found = [each.failure_info.failure for each in checks if each.failure_info is not None]
            problems += [f"{each.operation}: {each.title}: {each.message}" for each in found]
        elif isinstance(event, events.NonFatalError):
            problems.append(f"{event.label}: {event.value}")
        elif isinstance(event, events.FatalError):
            raise event.exception
        elif isinstance(event, events.EngineFinished):
            problems += [f"{each.operation}: {each.title}: {each.message}" for each in event.failures]
    return asked, problems


LABELS = [f"{each.method} {API}{each.path}" for each in PUBLIC]


def test_everything_is_answered_as_described(address: str) -> None:
    """No error of the server, no status, kind or shape of an answer that is not described, nothing wrong accepted.

    Of every operation each parameter is left out, of another type, and at and beyond each limit.
    """
    assert asked_and_wrong(address, "fuzzing", set(LABELS)) == (set(LABELS), [])


def test_random_requests_are_answered_as_described(address: str) -> None:
    """All operations have one reader of requests: every third of them will do, unless the tests explore."""
    chosen = set(LABELS if EXPLORING else LABELS[::3])
    assert asked_and_wrong(address, "coverage", chosen) == (chosen, [])


def nested(kind: type, depth: int) -> Any:
    """Lists in lists, or objects in objects."""
    found: Any = kind()
    for _ in range(depth):
        found = [found] if kind is list else {"a": found}
    return found


TEXTS = ("a" * 20_000, "9" * 5_000, "%00" * 3_000, "\0" * 3_000)
VALUES: tuple[Any, ...] = (
    "a" * 300_000,
    -(10**400),
    nested(list, 900),
    nested(dict, 900),
    {"a" * 100_000: 1},
)
ROLES = (None, *Role)
LONGEST_ADDRESS = 60_000  # of more the server reads none
SHAPE = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


SAID = [json.dumps(value) for value in VALUES]


@dataclass(frozen=True)
class Hostile:
    """A request in which everything is too large, too deep or too long, as it is sent."""

    operation: APIOperation[Any, Any, Any, Any]
    path: dict[str, str]
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None

    def answer(self, connection: HTTPConnection, token: dict[str, str]) -> Response:
        """That of the server. A client library would take longer over such an address than the server."""
        path = self.operation.full_path.format_map(
            {name: quote(text, "") for name, text in self.path.items()}
        )
        target = f"{path}?{urlencode(self.query)}" if self.query else path
        headers = {**self.headers, **token}
        if self.body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(self.operation.method.upper(), target, self.body, headers)
        found = connection.getresponse()
        sent = requests.PreparedRequest()
        sent.url = f"http://{connection.host}:{connection.port}{path}"
        kinds = {name.lower(): [value] for name, value in found.getheaders()}
        return Response(found.status, kinds, found.read(), sent, 0.0, verify=True)

    @property
    def case(self) -> Case:
        """What schemathesis compares the answer with."""
        media = "application/json" if self.body is not None else None
        return self.operation.Case(
            path_parameters=self.path, query=self.query, headers=self.headers, media_type=media
        )


def hostile_requests(operation: APIOperation[Any, Any, Any, Any]) -> Iterator[Hostile]:
    """Texts that are too long in everything but the body, and values that are too large in all of the body."""
    names = {
        each.name: each.definition["in"] for each in operation.iter_parameters() if "in" in each.definition
    }
    for longest in TEXTS:
        text = longest[: LONGEST_ADDRESS // (6 * max(1, len(names)))]
        given = {name: text for name, where in names.items() if where == "query"}
        path = {name: text for name, where in names.items() if where == "path"}
        headers = {name: text for name, where in names.items() if where == "header" and text.isprintable()}
        if given or path or headers:
            yield Hostile(operation, path, given, headers)
    for body in operation.body:
        properties = body.definition["schema"].get("properties", {})
        path = dict.fromkeys((name for name, where in names.items() if where == "path"), "x")
        for said in SAID:
            data = ", ".join(f"{json.dumps(name)}: {said}" for name in properties)
            yield Hostile(operation, path, body=f"{{{data}}}")


@pytest.fixture(scope="module")
def operations() -> list[APIOperation[Any, Any, Any, Any]]:
    schema = schemathesis.openapi.from_dict(description(), config=SchemathesisConfig.from_dict(CONFIG))
    return [found.ok() for found in schema.get_all_operations()]


@pytest.mark.parametrize("role", ROLES, ids=str)
def test_what_is_too_large_is_answered_as_described(
    guarded: str, operations: list[APIOperation[Any, Any, Any, Any]], role: Role | None
) -> None:
    """Whoever sends it, to whichever route: no error of the server, and the answer has the shape that is described."""
    token = {"Authorization": f"Bearer {TOKENS[role]}"} if role is not None else {}
    problems: list[str] = []
    with closing(HTTPConnection(guarded.removeprefix("http://"))) as connection:
        for operation in operations:
            sent = list(hostile_requests(operation))
            if role is not Role.ADMIN:
                # who is refused before the request is read: one of each kind will do
                sent = [sent[0], sent[-1]] if sent else []
            for each in sent:
                response = each.answer(connection, token)
                try:
                    each.case.validate_response(response, SHAPE)
                except FailureGroup as failures:
                    problems += [f"{operation.label}: {each}" for each in failures.exceptions]
    assert problems == []


def test_every_operation_is_described() -> None:
    described = {
        said["operationId"]: said for methods in description()["paths"].values() for said in methods.values()
    }
    assert set(described) == {each.name for each in PUBLIC}
    for operation in PUBLIC:
        said = described[operation.name]
        assert f"Role: {operation.role}." in said["description"]
        assert not {"by", "progress", "batch"} & {each["name"] for each in said["parameters"]}


def test_the_description_is_of_openapi_3_1() -> None:
    assert description()["openapi"] == "3.1.0"
    schemas = description()["components"]["schemas"]
    assert "counts its steps" in schemas["RunLine"]["description"]
