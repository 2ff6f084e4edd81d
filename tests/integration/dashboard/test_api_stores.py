"""The API on every kind of server store: the same story, once each."""

from __future__ import annotations

import pytest
from support.dashboards import API, SOURCE, client_of, with_users

from afl.operations.roles import Role
from afl.runtime.evaluator import Evaluator
from afl.runtime.types import WorkflowId


@pytest.mark.parametrize("kind", ["postgres_database", "mongo_database_url"])
def test_a_run_on_another_store(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(kind)
    with client_of(with_users(url), Role.ADMIN) as client:
        headers = {"Idempotency-Key": "once"}
        runs = {
            client.post(f"{API}/runs", json={"source": SOURCE}, headers=headers).json()["run"]
            for _ in range(3)
        }
        (run,) = runs
        Evaluator(client.app.state.store).resume(WorkflowId(run))  # type: ignore[attr-defined]
        step = {"step": f"{run}/asked", "result": {"answer": "so"}}
        assert client.post(f"{API}/continue", json=step).json()["changed"] is True
        Evaluator(client.app.state.store).resume(WorkflowId(run))  # type: ignore[attr-defined]
        assert client.get(f"{API}/runs/{run}/wait").json()["outputs"] == {"answer": "so"}
        for path in (
            "/runs",
            "/tasks",
            "/servers",
            f"/runs/{run}/logs",
            f"/runs/{run}/graph",
            "/why",
            "/badges",
        ):
            assert client.get(API + path).status_code == 200, path
        listed = client.get(f"{API}/runs", params={"state": "completed"}).json()
        assert [each["run"] for each in listed["runs"]] == [run]
        audited = client.get(f"{API}/audit", params={"limit": 2}).json()
        assert [each["operation"] for each in audited["entries"]] == ["continue_step", "submit_run"]
        rest = client.get(f"{API}/audit", params={"before": audited["next"]}).json()
        assert [each["operation"] for each in rest["entries"]] == ["submit_run", "submit_run"]
        answer = client.get(f"{API}/runs/no%20such")
        assert answer.status_code == 404
