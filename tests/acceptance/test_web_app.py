"""The web application of the examples, driven over HTTP, and killed in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from support.web_app import free_port, web_app

ORDER = {"order": "12", "amount": 10.5}


def events(client: httpx2.Client, after: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Position and data of each, as a browser reads them: it sends the last position that it had."""
    headers = {"Last-Event-ID": after} if after else {}
    with client.stream("GET", "/orders/12/events", headers=headers) as answer:
        position = ""
        for line in answer.iter_lines():
            if line.startswith("id: "):
                position = line.removeprefix("id: ")
            elif line.startswith("data: "):
                yield position, json.loads(line.removeprefix("data: "))


def test_an_order_is_sent_followed_released_and_outlives_its_server(tmp_path: Path) -> None:
    store, port = f"sqlite:///{tmp_path}/orders.db", free_port()
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        with web_app(store, port) as server:
            assert client.post("/orders", json=ORDER).json() == {"id": "order-12"}
            assert client.post("/orders", json=ORDER).json() == {"id": "order-12"}
            other = client.post("/orders", json={**ORDER, "amount": 11})
            assert (other.status_code, "amount" in other.json()["detail"]) == (409, True)
            seen = next(
                (position, each) for position, each in events(client) if each["kind"] == "step-waiting"
            )
            assert seen[1]["step"] == "released"
            server.kill()
        with web_app(store, port):
            assert client.get("/orders/12").json()["state"] == "running"
            assert client.post("/orders/12/release").json() == {"released": "12"}
            result = client.get("/orders/12/result").json()
            assert result == {"receipt": "receipt-12", "parcel": "parcel-12"}
            kinds = [each["kind"] for _, each in events(client)]
            rest = [each["kind"] for _, each in events(client, after=seen[0])]
            assert rest == kinds[kinds.index("step-waiting") + 1 :]
            assert rest[-1] == "run-completed"


def test_what_cannot_be_done_has_the_status_of_its_cause(tmp_path: Path) -> None:
    port = free_port()
    with (
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
        web_app(f"sqlite:///{tmp_path}/orders.db", port),
    ):
        unknown = [
            client.get("/orders/99"),
            client.get("/orders/99/result"),
            client.get("/orders/99/events"),
        ]
        assert [(answer.status_code, "order-99" in answer.json()["detail"]) for answer in unknown] == [
            (404, True)
        ] * 3
        client.post("/orders", json=ORDER)
        next(each for _, each in events(client) if each["kind"] == "step-waiting")
        assert [client.post("/orders/12/release").status_code for _ in range(2)] == [200, 409]
