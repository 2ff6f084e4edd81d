"""Any frame for any verb: each is answered, none ends the principal, and its loops go on."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from support.eventually import eventually
from support.principals import HELLO
from support.properties import tries

from afl.fleet import requests
from afl.fleet.client import Client
from afl.fleet.principal.service import Principal
from afl.fleet.protocol import SOH, Kind, LogFrame, parse_reply
from afl.fleet.requests import GetLogs, Heartbeat, JsonRequest, ListAgents, Ping, Request, Ship
from afl.fleet.settings import FleetSettings
from afl.kernel.bounds import LARGEST_NUMBER
from afl.kernel.database import Database, Query, connect

LEASE_MS = 100  # the monitor looks as often
PATIENCE_MS = 30_000
AGENTS = Query.of("select agent_id from fleet_agents")
ODD: list[Any] = [
    *["", "a\0b", "a\nb", "\x7f", "\u202e", "'; drop table fleet_runs; --", "x" * 100_000],
    *[-1, 2**31, 2**53, 2**63, -(2**63), 2**64, 10**400, 1.5, None, True, [], {}, [["\0", 2**63]], ["\0"]],
]
SOUND: dict[str, Any] = {
    "agent_id": "a",
    "incarnation": "i",
    "slots": 1,
    "running": [["r1", 1]],
    "wait_ms": 0,
    "stream": "main",
    "records": [],
    "oldest": 1,
    "workflow_id": "hello",
    "workflow_instance_id": "w1",
    "params": {},
    "run_id": "r1",
    "held": ["r1"],
    "statuses": [],
    "status": "RUNNING",
    "before": "",
    "limit": 5,
    "task_id": "t",
    "task_instance_id": "t1",
    "start_ms": 0,
    "end_ms": 9,
    "after": 0,
    "last": 1,
    "level": "INFO",
    "reason": "",
    "version": 9,
    "verbose": True,
}
RECORD: dict[str, Any] = {
    "seq": 1,
    "run_id": "r1",
    "epoch": 1,
    "status": "RUNNING",
    "at": 1,
    "error": "",
    "task_id": "t",
    "task_instance_id": "t1",
    "attempt": 1,
    "exit_code": 0,
    "workflow_id": "w",
    "workflow_name": "W",
    "task_name": "T",
    "level": "INFO",
    "count": 1,
    "lines": ["x"],
}
KINDS = [
    kind
    for kind in vars(requests).values()
    if isinstance(kind, type) and issubclass(kind, Request) and kind.verb
]


def frame_of(kind: type[Request[Any]], values: dict[str, Any]) -> bytes:
    """The request with values that its type may not allow."""
    names = kind.__struct_fields__
    if isinstance(values["wait_ms"], int) and 0 < values["wait_ms"] <= LARGEST_NUMBER:
        values = values | {"wait_ms": 0}  # it would be answered, a minute later
    if issubclass(kind, JsonRequest):
        tokens = [json.dumps({name: values[name] for name in names})]
    else:
        tokens = [
            values[name] if isinstance(values[name], str) else json.dumps(values[name]) for name in names
        ]
    return SOH.join([kind.verb, *tokens]).encode()


def every_field() -> Iterator[bytes]:
    """Every verb, with every odd value in every place."""
    for kind in KINDS:
        yield frame_of(kind, SOUND)
        for name in kind.__struct_fields__:
            for value in ODD:
                yield frame_of(kind, SOUND | {name: value})
    for record in ({"kind": "run"}, {"kind": "task"}, {"kind": "log"}, {"kind": "what"}):
        for name in RECORD:
            for number, value in enumerate(ODD):
                spoilt = RECORD | record | {name: value}
                yield frame_of(Ship, SOUND | {"incarnation": f"{name}-{number}", "records": [spoilt]})


TEXTS = st.one_of(st.sampled_from([each for each in ODD if isinstance(each, str)]), st.text(max_size=5))
ANYTHING = st.recursive(
    st.one_of(st.sampled_from(ODD), TEXTS, st.integers()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
FRAMES = st.one_of(
    st.binary(max_size=50),
    st.builds(
        lambda kind, odd: frame_of(kind, SOUND | odd),
        st.sampled_from(KINDS),
        st.dictionaries(st.sampled_from(sorted(SOUND)), ANYTHING, max_size=4),
    ),
    st.builds(
        lambda kind, tokens: SOH.join([kind.verb, *tokens]).encode("utf-8", "replace"),
        st.sampled_from(KINDS),
        st.lists(TEXTS, max_size=6),
    ),
)


@dataclass
class Running:
    """A principal in a thread of this process; its end is seen."""

    settings: FleetSettings
    database: Database
    ended: threading.Event


@contextmanager
def serving(database: Database, folder: Path) -> Iterator[Running]:
    (folder / "workflows").mkdir()
    (folder / "workflows" / "hello.yml").write_text(HELLO)
    settings = FleetSettings(
        principal_port=0,
        logs_listening_port=0,
        logs_publishing_port=0,
        app_data_directory=str(folder / "data"),
        workflow_dir=str(folder / "workflows"),
        agent_heartbeat_timeout_ms=LEASE_MS,
    )
    made: list[tuple[Principal, asyncio.AbstractEventLoop]] = []
    ready, ended = threading.Event(), threading.Event()

    async def serve() -> None:
        principal = Principal(settings, database)
        made.append((principal, asyncio.get_running_loop()))
        await principal.serve(ready=ready.set)

    def live() -> None:
        try:
            asyncio.run(serve())
        finally:
            ended.set()
            ready.set()

    thread = threading.Thread(target=live)
    thread.start()
    ready.wait()
    principal, loop = made[0]
    requests_port, intake, live_port = principal.ports
    try:
        reached = replace(
            settings, principal_port=requests_port, logs_listening_port=intake, logs_publishing_port=live_port
        )
        yield Running(reached, database, ended)
    finally:
        if not ended.is_set():
            loop.call_soon_threadsafe(principal.stop)
        thread.join()


@pytest.fixture(params=["sqlite", "postgres"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    url = "memory://" if request.param == "sqlite" else request.getfixturevalue("empty_postgres_url")
    with connect(url) as database, serving(database, tmp_path) as running:
        yield running


def test_every_frame_is_answered_and_none_ends_the_principal(running: Running) -> None:
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(running.settings.address(running.settings.principal_port))

        def are_answered(frames: list[bytes]) -> None:
            for frame in frames:
                socket.send_multipart([b"", frame])
            for _ in frames:
                assert socket.poll(PATIENCE_MS), "no answer"
                reply = parse_reply(socket.recv_multipart()[-1])
                assert reply.kind in (Kind.PONG, Kind.OK, Kind.SUCCESS, Kind.CLIENTERROR), reply.payload

        for frames in batched(every_field()):
            are_answered(frames)
        tries(60)(given(st.lists(FRAMES, min_size=1, max_size=20))(are_answered))()
    goes_on(running)


def batched(frames: Iterator[bytes], size: int = 100) -> Iterator[list[bytes]]:
    while batch := list(islice(frames, size)):
        yield batch


def test_every_log_frame_is_stored_or_dropped(running: Running) -> None:
    parts = st.lists(st.one_of(TEXTS, st.integers().map(str)), min_size=5, max_size=9)
    sound = LogFrame("w", "W", "hostile", "T", "t", 1, "INFO", "x").frame()
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(running.settings.address(running.settings.logs_listening_port))

        @tries(200)
        @given(
            st.one_of(
                st.binary(max_size=50), parts.map(lambda texts: SOH.join(texts).encode("utf-8", "replace"))
            )
        )
        def is_taken(frame: bytes) -> None:
            socket.send(frame)

        is_taken()
        socket.send(sound)
        with Client(running.settings) as client:
            eventually(
                lambda: [line.payload for line in client.call(GetLogs(run_id="hostile")).lines] == ["x"]
            )
    goes_on(running)


def goes_on(running: Running) -> None:
    """It answers, and the monitor still writes down who was heard."""
    with Client(running.settings) as client:
        client.call(Heartbeat(agent_id="the last", incarnation="i-last", slots=1))
        eventually(lambda: "the last" in [row["agent_id"] for row in running.database.select(AGENTS)])
        assert client.call(Ping()) is None
        assert "the last" in [agent.agent_id for agent in client.call(ListAgents())]
    assert not running.ended.is_set()
