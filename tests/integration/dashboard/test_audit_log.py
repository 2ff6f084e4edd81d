"""The audit log: every action once, whatever comes of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

import pytest
from starlette.testclient import TestClient
from support.dashboards import API, SOURCE, client_of, settings_for, with_users

from afl.client.store_client import StoreClient
from afl.kernel.settings import Settings
from afl.operations import audit
from afl.operations.audit import read_audit
from afl.operations.catalog import OPERATIONS, PUBLIC
from afl.operations.operation import Operation
from afl.operations.roles import Caller, Role
from afl.operations.run import control
from afl.operations.run.runs import opened
from afl.runtime.persistence import PersistenceAPI

ACTIONS = [each for each in PUBLIC if each.is_action]


@pytest.fixture(scope="module")
def served_admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("audit")
    settings = with_users(f"sqlite:///{folder}/afl.db", redis="redis://127.0.0.1:1/0")
    with pytest.MonkeyPatch.context() as patch, client_of(settings, Role.ADMIN) as client:
        patch.setenv("CDKTR_DEFAULT_ZMQ_TIMEOUT_MS", "50")
        patch.setenv("CDKTR_PRINCIPAL_PORT", "1")
        yield client


def entries(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{API}/audit", params={"limit": 1000}).json()["entries"]
    return found


def body_for(operation: Operation) -> dict[str, Any]:
    """Something of the right kind for everything that has to be given."""
    made: dict[str, Any] = {}
    for each in operation.parameters:
        if each.default is inspect.Parameter.empty and f"{{{each.name}}}" not in operation.path:
            kind, _ = operation.kind_of(each.name)
            is_map = get_origin(kind) in (dict, Mapping) or kind in (dict, Mapping)
            is_list = get_origin(kind) in (list, Sequence)
            made[each.name] = {} if is_map else [] if is_list else "nothing" if kind is str else 1
    return made


@pytest.mark.parametrize("operation", ACTIONS, ids=lambda each: each.name)
def test_every_action_is_written_down_once(served_admin: TestClient, operation: Operation) -> None:
    before = len(entries(served_admin))
    path = re.sub(r"{action}", "reset", operation.path)
    path = re.sub(r"{\w+}", "nothing", path)
    body = body_for(operation) if operation.has_body else None
    answer = served_admin.request(operation.method, API + path, json=body)
    assert answer.status_code != 422 or answer.json()["error"]["code"] != "request-error", answer.text
    new = entries(served_admin)[: len(entries(served_admin)) - before]
    assert [(each["who"], each["operation"]) for each in new] == [("admin", operation.name)]
    assert new[0]["outcome"] == ("done" if answer.status_code == 200 else "failed")


def test_looking_is_not_written_down(served_admin: TestClient) -> None:
    before = entries(served_admin)
    served_admin.get(f"{API}/runs")
    served_admin.get(f"{API}/tasks")
    assert entries(served_admin) == before


def test_every_action_of_the_table_says_what_it_is_about() -> None:
    unsaid = {each.name for each in OPERATIONS if each.is_action and not each.subject}
    assert unsaid == {"prune_runs"}


def test_an_action_says_who_did_what_to_what_from_where(store_url: str) -> None:
    with client_of(with_users(store_url), Role.OPERATOR) as client:
        run = client.post(f"{API}/runs", json={"source": SOURCE}).json()["run"]
        client.post(f"{API}/runs/{run}/cancel")
        shown = client.get(f"{API}/runs/{run}").json()["tree"]["run"]
        assert shown["reason"] == "canceled by operator operator"
    with client_of(with_users(store_url), Role.ADMIN) as client:
        last, first = entries(client)
    assert (first["operation"], first["subject"]) == ("submit_run", run)
    assert (last["who"], last["role"], last["operation"], last["subject"], last["outcome"]) == (
        "operator",
        "operator",
        "cancel_run",
        run,
        "done",
    )
    assert last["origin"] == "testclient" and last["time"] > 0


@pytest.fixture
def settings(store_url: str) -> Settings:
    return settings_for(store_url)


@pytest.fixture
def store(settings: Settings) -> Iterator[PersistenceAPI]:
    with opened(settings) as store:
        yield store


def test_what_a_client_in_this_process_does_is_written_down_too(
    store: PersistenceAPI, settings: Settings
) -> None:
    client = StoreClient(store, settings)
    with pytest.raises(control.InputError):
        client.call(control.cancel, "nothing")
    (entry,) = client.call(read_audit).entries
    assert (entry.operation, entry.outcome, entry.origin) == ("cancel_run", "failed", "this machine")
    assert "there is no run nothing" in entry.message


def test_the_log_is_read_by_pages(store: PersistenceAPI) -> None:
    caller = Caller("ada", Role.ADMIN, "here")
    for number in range(5):
        audit.note(store, caller, "x", str(number), audit.DONE)
    seen: list[str] = []
    before = 0
    while True:
        page = read_audit(store, before=before, limit=2)
        seen += [each.subject for each in page.entries]
        before = page.next
        if not before:
            break
    assert seen == ["4", "3", "2", "1", "0"]


def test_long_texts_are_cut(store: PersistenceAPI) -> None:
    audit.note(store, Caller("ada", Role.ADMIN), "x", "s" * 10_000, audit.FAILED, "m" * 10_000)
    (entry,) = read_audit(store).entries
    assert (len(entry.subject), len(entry.message)) == (1_000, 1_000)
