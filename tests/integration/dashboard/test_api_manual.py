"""The API for people: what `/api/v1` says of itself, and the page with every request."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from html import unescape

import pytest
from starlette.testclient import TestClient
from support.dashboard_pages import MARKUP, shown
from support.dashboards import API, client_of, settings_for, with_users

from afl import __version__
from afl.dashboard.api import manual
from afl.kernel.errors import MissingExtraError
from afl.operations.catalog import PUBLIC, named
from afl.operations.operation import Operation
from afl.operations.roles import Role

DOCS = f"{API}/docs"
BROWSER = {"Accept": "text/html"}


@pytest.mark.parametrize("path", [API, f"{API}/"])
def test_the_api_says_what_it_is_and_where_it_is_described(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    about = answer.json()
    assert (about["name"], about["version"]) == ("AgentFlow", __version__)
    kinds = {name: client.get(link).headers["Content-Type"] for name, link in about["links"].items()}
    assert kinds == {"openapi": "application/json", "docs": "text/html; charset=utf-8"}


def test_the_page_has_every_request(client: TestClient) -> None:
    page = client.get(DOCS).text
    entries = {each.operation.name: each for group in manual.manual(False).values() for each in group}
    assert set(entries) == {each.name for each in PUBLIC}
    for operation in PUBLIC:
        box = _box(page, operation)
        for word in (operation.method, f"{API}{operation.path}", operation.role, operation.summary):
            assert word in box
        for parameter in operation.parameters:
            assert ("Idempotency-Key" if parameter.name == operation.key else parameter.name) in box
        assert entries[operation.name].example in box
    assert '"all" or "latest" or "none"' in _box(page, named("add_schedule"))


def _box(page: str, operation: Operation) -> str:
    """What a person reads of one request."""
    found = re.search(rf'<details [^>]*id="request-{operation.name}">(.*?)</details>', page, re.DOTALL)
    assert found is not None
    return shown(found[1])


def test_the_page_has_nothing_foreign_and_needs_no_script(client: TestClient) -> None:
    page = client.get(DOCS).text
    addresses = re.findall(r'(?:src|href|action)="([^"]*)"', page)
    assert addresses and [each for each in addresses if not re.match(r"[/#](?!/)", each)] == []
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="/static/afl.js">']
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert {each[1:] for each in addresses if each.startswith("#")} <= set(ids)


@pytest.mark.parametrize(
    "operation", [each for each in PUBLIC if each.needs == "store"], ids=lambda each: each.name
)
def test_an_example_is_a_request_that_is_understood(client: TestClient, operation: Operation) -> None:
    entry = next(
        each for group in manual.manual(True).values() for each in group if each.operation is operation
    )
    words = shlex.split(entry.example)
    assert words[:3] == ["curl", "-H", "Authorization: Bearer $AFL_TOKEN"]
    body = words[words.index("-d") + 1] if "-d" in words else None
    method = words[words.index("-X") + 1] if "-X" in words else "POST" if body else "GET"
    answer = client.request(
        method, words[-1].removeprefix("$AFL_SERVER"), json=json.loads(body) if body else None
    )
    code = answer.json()["error"]["code"] if answer.status_code != 200 else ""
    assert code not in ("request-error", "not-found", "method-not-allowed"), answer.text


def test_texts_of_the_catalog_are_texts(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = dataclasses.replace(named("list_runs"), summary=MARKUP)
    argument = manual.Argument(MARKUP, MARKUP, MARKUP, MARKUP)
    entry = manual.Entry(operation, MARKUP, (argument,), f"curl '{MARKUP}'", "")
    monkeypatch.setattr(manual, "manual", lambda _: {"runs": [entry]})
    page = client.get(DOCS).text
    assert MARKUP not in page and unescape(page).count(MARKUP) >= 7


def test_a_part_that_is_not_installed_is_said_and_the_rest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(operation: Operation) -> dict[str, object]:
        raise MissingExtraError("the fleet needs pyzmq")

    monkeypatch.setattr(manual, "_schemas", missing)
    entry = manual._entry(named("fleet_runs"), False)
    assert (entry.missing, entry.arguments) == ("the fleet needs pyzmq", ())


def test_the_page_is_for_those_who_may_come_in(store_url: str) -> None:
    with client_of(with_users(store_url)) as client:
        assert client.get(DOCS, headers=BROWSER).headers["Location"] == "/login?next=%2Fapi%2Fv1%2Fdocs"
        assert client.get(API).json()["error"]["code"] == "unauthenticated"
    with client_of(with_users(store_url), Role.VIEWER) as client:
        page = client.get(DOCS).text
        assert "Bearer $AFL_TOKEN" in page and "AFL_TOKEN=..." in page
        assert f'href="{DOCS}"' in client.get("/runs").text
    with client_of(settings_for(store_url)) as client:
        assert "AFL_TOKEN" not in client.get(DOCS).text
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert client.get(DOCS, headers=link).status_code == 200
        assert client.get(API, headers=link).status_code == 403
