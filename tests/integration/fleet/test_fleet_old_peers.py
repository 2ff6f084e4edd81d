"""A client and an agent of the reference, byte for byte, against a real principal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
import zmq
from support.eventually import eventually
from support.old_peer import OldPeer
from support.principals import PrincipalProcess, running_principal

AGENT = "me@box/AG1"


@pytest.fixture(scope="module")
def principal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrincipalProcess]:
    with running_principal(tmp_path_factory.mktemp("principal")) as principal:
        yield principal


@pytest.fixture
def peer(principal: PrincipalProcess) -> Iterator[OldPeer]:
    with OldPeer(principal.settings) as peer:
        yield peer


def payload(reply: bytes) -> object:
    kind, _, text = reply.partition(b"\x01")
    assert kind == b"SUCCESS"
    return json.loads(text)


def drained(peer: OldPeer) -> None:
    while peer.ask("FETCHWORKFLOW", "drain") != b"OK":
        pass


def test_ping_and_list(peer: OldPeer, principal: PrincipalProcess) -> None:
    assert peer.ask("PING") == b"PONG"
    listing = payload(peer.ask("LSWORKFLOWS"))
    assert listing == {
        "hello": {
            "id": "hello",
            "name": "Hello",
            "description": None,
            "path": f"{principal.settings.workflow_dir}/hello.yml",
            "dag": {
                "name": "Hello",
                "task_id_node_ix_map": {"a": 0},
                "task_map": {
                    "a": {
                        "name": "A",
                        "description": None,
                        "depends": None,
                        "config": {"Subprocess": {"cmd": "echo", "args": ["hi"]}},
                    }
                },
                "inner": {"nodes": ["a"], "node_holes": [], "edge_property": "directed", "edges": []},
                "first_tasks": ["a"],
            },
            "cron": None,
            "start_time": None,
        }
    }


def test_a_run_from_trigger_to_end(peer: OldPeer) -> None:
    drained(peer)
    assert peer.ask("REGISTERAGENT", AGENT) == b"OK"
    assert peer.ask("FETCHWORKFLOW", AGENT) == b"OK"
    assert peer.ask("RUNTASK", "hello") == b"OK"
    workflow = payload(peer.ask("FETCHWORKFLOW", AGENT))
    assert isinstance(workflow, dict) and workflow["id"] == "hello"
    assert peer.ask("FETCHWORKFLOW", AGENT) == b"OK"
    ids = ("slim-auk-0", "old-owl-1")
    assert peer.ask("AGENTWORKFLOWSTATUS", AGENT, "hello", ids[0], "RUNNING") == b"OK"
    for status in ("PENDING", "RUNNING", "COMPLETED"):
        assert peer.ask("AGENTTASKSTATUS", AGENT, "a", ids[1], ids[0], status) == b"OK"
    agents = payload(peer.ask("GETREGISTEREDAGENTS"))
    assert isinstance(agents, list)
    me = next(agent for agent in agents if agent["agent_id"] == AGENT)
    assert set(me) == {"agent_id", "last_ping_timestamp", "running_tasks"} and me["running_tasks"] == 1
    assert abs(me["last_ping_timestamp"] / 1_000_000 - time.time()) < 3600
    assert peer.ask("AGENTWORKFLOWSTATUS", AGENT, "hello", ids[0], "COMPLETED") == b"OK"
    recent = payload(peer.ask("GETRECENTSTATUSES"))
    assert isinstance(recent, list)
    assert {key: recent[0][key] for key in ("workflow_id", "workflow_instance_id", "status")} == {
        "workflow_id": "hello",
        "workflow_instance_id": "slim-auk-0",
        "status": "COMPLETED",
    }
    [run] = [run for run in runs(peer) if run["instance_id"] == "slim-auk-0"]
    assert (run["status"], run["agent_id"], run["trigger"]) == ("COMPLETED", AGENT, "RUNTASK")


def runs(peer: OldPeer) -> list[dict[str, object]]:
    found = payload(peer.ask("LISTRUNS", "{}"))
    assert isinstance(found, list)
    return found


def test_the_first_running_binds_the_oldest_fetch(peer: OldPeer) -> None:
    drained(peer)
    for _ in range(2):
        assert peer.ask("RUNTASK", "hello") == b"OK"
        payload(peer.ask("FETCHWORKFLOW", "binder"))
    newest, older = [run["run_id"] for run in runs(peer)[:2]]
    assert peer.ask("AGENTWORKFLOWSTATUS", "binder", "hello", "first", "RUNNING") == b"OK"
    assert peer.ask("AGENTWORKFLOWSTATUS", "binder", "hello", "second", "RUNNING") == b"OK"
    bound = {run["run_id"]: run["instance_id"] for run in runs(peer)}
    assert (bound[older], bound[newest]) == ("first", "second")


def test_an_instance_nobody_fetched_is_tracked_too(peer: OldPeer) -> None:
    assert peer.ask("AGENTWORKFLOWSTATUS", "stranger", "gone.workflow", "odd-elk-3", "RUNNING") == b"OK"
    [run] = [run for run in runs(peer) if run["instance_id"] == "odd-elk-3"]
    assert (run["workflow_id"], run["status"]) == ("gone.workflow", "RUNNING")
    assert peer.ask("AGENTWORKFLOWSTATUS", "stranger", "gone.workflow", "odd-elk-3", "FAILED") == b"OK"


def test_errors_have_the_reference_texts(peer: OldPeer) -> None:
    assert peer.ask("RUNTASK", "nope") == b"CLIENTERROR\x01No workflow exists with id nope"
    assert peer.ask("RUNTASK") == b"CLIENTERROR\x01ParseError: Request is missing task_id"
    assert peer.ask("HUH") == b"CLIENTERROR\x01ParseError: Unrecognized message type: HUH"
    assert peer.ask("QUERYLOGS", "x", "", "", "") == b"CLIENTERROR\x01ParseError: Not a valid end timestamp"


def log_frame(workflow: str, number: int, at: int) -> bytes:
    fields = (workflow, "Hello", f"{workflow}-run", "A", "old-owl-1", str(at), "INFO", f"STDOUT {number}")
    return "\x01".join(fields).encode()


def test_log_lines_go_in_come_out_and_are_found_in_order(peer: OldPeer) -> None:
    subscriber, pusher = peer.subscriber("logged"), peer.pusher()
    eventually(lambda: _received(pusher, subscriber))
    for number in range(500):
        pusher.send(log_frame("logged", number, 1_700_000_000_000 + number))
    received = [subscriber.recv() for _ in range(500)]
    assert received == [log_frame("logged", number, 1_700_000_000_000 + number) for number in range(500)]
    reply = peer.ask("QUERYLOGS", "1700000000500", "1700000000000", "logged", "", "")
    lines = payload(reply)
    assert isinstance(lines, list) and len(lines) == 500
    assert lines[0] == "[2023-11-14T22:13:20+00:00 INFO] [logged-run/old-owl-1] STDOUT 0"
    assert lines[1] == "[2023-11-14T22:13:20.001+00:00 INFO] [logged-run/old-owl-1] STDOUT 1"
    verbose = payload(peer.ask("QUERYLOGS", "1700000000001", "1700000000000", "", "logged-run", "v"))
    expected = "[Hello=logged-run / A=old-owl-1] STDOUT 0"
    assert verbose == [f"[2023-11-14T22:13:20+00:00 INFO] {expected}"]
    assert payload(peer.ask("QUERYLOGS", "1700000000000", "1600000000000", "logged", "", "")) == []


def _received(pusher: zmq.Socket[bytes], subscriber: zmq.Socket[bytes]) -> bool:
    """Subscriptions travel on their own: probe until one comes back, then take in what is left of the probes."""
    pusher.send(log_frame("logged.probe", 0, 1))
    if not subscriber.poll(50):
        return False
    while subscriber.poll(200):
        subscriber.recv()
    return True


def test_malformed_frames_never_end_it(peer: OldPeer, principal: PrincipalProcess) -> None:
    pusher = peer.pusher()
    for frame in (b"", b"a\x01b", b"\x01" * 6, b"\xff\xfe" * 20, b"w\x01" * 7 + b"x"):
        pusher.send(frame)
        assert peer.ask_frames(frame).startswith(b"CLIENTERROR\x01ParseError: ")
    assert peer.ask_frames(b"PING", b"PING") == b"CLIENTERROR\x01ParseError: a request is one frame"
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.connect(principal.settings.address(principal.settings.principal_port))
        dealer.send_multipart([b"no", b"envelope"])
        dealer.send_multipart([b""])
        dealer.send_multipart([b"", b"PING"])
        assert dealer.poll(30_000) and dealer.recv_multipart()[-1].startswith(b"CLIENTERROR")
        assert dealer.poll(30_000) and dealer.recv_multipart() == [b"", b"PONG"]
    assert peer.ask("PING") == b"PONG"
    assert peer.ask("SHIP", "{}").startswith(b"CLIENTERROR\x01ParseError: SHIP: ")
