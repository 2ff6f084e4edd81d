"""The API against its own description: whatever fits it, and much that does not, is answered as it says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
import schemathesis
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from support.dashboards import API, SOURCE, served, settings_for
from support.principals import running_principal

from afl.dashboard.api.description import description
from afl.operations.catalogue import PUBLIC

pytestmark = pytest.mark.xdist_group("api-schema")  # one server for all of them
CHECKS: list[CheckFunction] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]
CONFIG = {
    "seed": 7,
    "generation": {"deterministic": True, "max-examples": 5, "no-shrink": True, "database": "none"},
}
SCHEMA = schemathesis.openapi.from_dict(description(), config=SchemathesisConfig.from_dict(CONFIG))


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


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


@SCHEMA.parametrize()
def test_everything_is_answered_as_described(
    case: schemathesis.Case, address: str, session: requests.Session
) -> None:
    case.call_and_validate(base_url=address, session=session, checks=CHECKS)


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
