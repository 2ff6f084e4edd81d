"""The API against its own description: whatever fits it, and much that does not, is answered as it says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from support.dashboards import API, SOURCE, served, settings_for
from support.principals import running_principal

from afl.dashboard.api.description import description
from afl.operations.catalogue import PUBLIC

# What is refused for its meaning (a source that does not compile) fits the schema all the same: the check that good
# data is accepted would call that wrong.
CHECKS = {"positive_data_acceptance": {"enabled": False}, "ignored_auth": {"enabled": False}}
CONFIG = {
    "seed": 7,
    "checks": CHECKS,
    "phases": {"examples": {"enabled": False}, "stateful": {"enabled": False}},
    "generation": {"deterministic": True, "max-examples": 4, "no-shrink": True, "database": "none"},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[str]:
    """A server with everything behind it, and a run in it that is over: nobody waits for that one."""
    folder = tmp_path_factory.mktemp("schema")
    settings = settings_for(f"sqlite:///{folder}/afl.db", redis=redis_url)
    with (
        running_principal(folder) as principal,
        pytest.MonkeyPatch.context() as patch,
        served(settings) as url,
    ):
        patch.setenv("CDKTR_PRINCIPAL_PORT", str(principal.settings.principal_port))
        run = requests.post(f"{url}{API}/runs", json={"source": SOURCE}).json()["run"]
        assert requests.post(f"{url}{API}/runs/{run}/cancel").json()["changed"] is True
        yield url


def test_everything_is_answered_as_described(address: str) -> None:
    """No error of the server, no status, kind or shape of an answer that is not described, nothing wrong accepted."""
    schema = schemathesis.openapi.from_dict(description(), config=SchemathesisConfig.from_dict(CONFIG))
    schema.config.update(base_url=address)
    asked: set[str] = set()
    problems: list[str] = []
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            asked |= {event.recorder.label} if event.recorder.interactions else set()
        elif isinstance(event, events.NonFatalError):
            problems.append(f"{event.label}: {event.value}")
        elif isinstance(event, events.FatalError):
            raise event.exception
        elif isinstance(event, events.EngineFinished):
            problems += [f"{each.operation}: {each.title}: {each.message}" for each in event.failures]
    assert problems == []
    assert asked == {f"{each.method} {API}{each.path}" for each in PUBLIC}


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
