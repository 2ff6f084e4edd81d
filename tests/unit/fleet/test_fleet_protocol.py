"""Frames to the byte: every verb, every reply, every error text of the reference, and log frames."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.fleet import requests as r
from afl.fleet.errors import PrincipalFailed, ProtocolError, RequestRefused
from afl.fleet.messages import OLD, Level, LogRecord, RunRecord, Status, TaskRecord
from afl.fleet.protocol import (
    OK,
    PONG,
    Kind,
    LogFrame,
    Reply,
    client_error,
    parse_log_frame,
    parse_reply,
    server_error,
    shown_time,
    success,
)
from afl.fleet.request_reader import parse_request
from afl.kernel.bounds import LONGEST_NAME

FRAMES: list[tuple[bytes, r.Request[Any]]] = [
    (b"PING", r.Ping()),
    (b"LSWORKFLOWS", r.ListWorkflows()),
    (b"RUNTASK\x01etl.daily", r.RunTask("etl.daily")),
    (b"REGISTERAGENT\x01me@box/AG1", r.RegisterAgent("me@box/AG1")),
    (b"FETCHWORKFLOW\x01me@box/AG1", r.FetchWorkflow("me@box/AG1")),
    (
        b"AGENTWORKFLOWSTATUS\x01ag\x01wf\x01slim-auk-0\x01RUNNING",
        r.AgentWorkflowStatus("ag", "wf", "slim-auk-0", Status.RUNNING),
    ),
    (
        b"AGENTTASKSTATUS\x01ag\x01t\x01t-1\x01slim-auk-0\x01COMPLETED",
        r.AgentTaskStatus("ag", "t", "t-1", "slim-auk-0", Status.COMPLETED),
    ),
    (b"QUERYLOGS\x0120\x0110\x01wf\x01i\x01v", r.QueryLogs(20, 10, "wf", "i", True)),
    (b"QUERYLOGS\x01\x01\x01\x01\x01", r.QueryLogs()),
    (b"GETRECENTSTATUSES", r.GetRecentStatuses()),
    (b"GETREGISTEREDAGENTS", r.GetRegisteredAgents()),
    (b'FETCHRUN\x01ag\x01inc\x01500\x01["r1"]', r.FetchRun("ag", "inc", 500, ("r1",))),
    (b"FETCHRUN\x01ag\x01inc\x010\x01", r.FetchRun("ag", "inc")),
    (b"CANCELRUN\x01r1\x01why", r.CancelRun("r1", "why")),
    (b"GETRUN\x01r1", r.GetRun("r1")),
    (b"WATCHRUN\x01r1\x013\x011000", r.WatchRun("r1", 3, 1000)),
    (b"LISTDEFINITIONS", r.ListDefinitions()),
    (b"CHECKWORKFLOWS", r.CheckWorkflows()),
    (b"LISTAGENTS", r.ListAgents()),
    (
        b'RUNWORKFLOW\x01{"workflow_id":"w","params":{"n":1},"run_id":"r1"}',
        r.RunWorkflow(workflow_id="w", params={"n": 1}, run_id="r1"),
    ),
    (
        b'HEARTBEAT\x01{"agent_id":"a","incarnation":"i","slots":5,"running":[["r1",2]],"wait_ms":9}',
        r.Heartbeat(agent_id="a", incarnation="i", slots=5, running=[("r1", 2)], wait_ms=9),
    ),
]


@pytest.mark.parametrize(("frame", "request_"), FRAMES, ids=lambda value: str(value)[:30])
def test_a_request_to_the_byte(frame: bytes, request_: r.Request[Any]) -> None:
    assert request_.frame() == frame
    assert parse_request(frame) == request_


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"", "Unrecognized message type: "),
        (b"NONSENSE\x01x", "Unrecognized message type: NONSENSE"),
        (b"ping", "Unrecognized message type: ping"),
        (b"RUNTASK", "Request is missing task_id"),
        (b"REGISTERAGENT", "Missing arg AGENT_ID"),
        (b"FETCHWORKFLOW", "Missing agent id"),
        (b"AGENTWORKFLOWSTATUS", "Missing arg AGENT_ID"),
        (b"AGENTWORKFLOWSTATUS\x01a\x01w", "Missing arg TASK_EXECUTION_ID"),
        (b"AGENTWORKFLOWSTATUS\x01a\x01w\x01i", "Missing arg TASK_STATUS"),
        (b"AGENTWORKFLOWSTATUS\x01a\x01w\x01i\x01running", "Unrecognized task status: running"),
        (b"AGENTWORKFLOWSTATUS\x01a\x01w\x01i\x01SKIPPED", "Unrecognized task status: SKIPPED"),
        (b"AGENTTASKSTATUS\x01a", "Missing arg TASK_ID"),
        (b"AGENTTASKSTATUS\x01a\x01t", "Missing arg TASK_EXECUTION_ID"),
        (b"AGENTTASKSTATUS\x01a\x01t\x01e", "Missing arg WORKFLOW_INSTANCE_ID"),
        (b"AGENTTASKSTATUS\x01a\x01t\x01e\x01i", "Missing arg TASK_STATUS"),
        (b"QUERYLOGS", "Missing END_TIMESTAMP"),
        (b"QUERYLOGS\x01", "Missing START_TIMESTAMP parameter"),
        (b"QUERYLOGS\x01\x01", "Missing WORKFLOW_ID parameter"),
        (b"QUERYLOGS\x01\x01\x01", "Missing WORKFLOW_INSTANCE_ID parameter"),
        (b"QUERYLOGS\x01x\x01\x01\x01", "Not a valid end timestamp"),
        (b"QUERYLOGS\x01\x01x\x01\x01", "Not a valid end timestamp"),
        (b"FETCHRUN\x01a\x01i\x01soon", "WAIT_MS is 'soon'; expected a whole number"),
        (b"RUNWORKFLOW", "Missing the JSON object of RUNWORKFLOW"),
        (b"GETRUN\x01\xff\xfe", "GETRUN is not UTF-8 text: invalid start byte"),
    ],
)
def test_what_is_wrong_is_told_in_the_words_of_the_reference(frame: bytes, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_request(frame)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "frame", [b"RUNWORKFLOW\x01{", b"SHIP\x01[]", b'HEARTBEAT\x01{"agent_id":1}', b"SHIP\x01\xff"]
)
def test_json_that_does_not_fit_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match=frame.split(b"\x01")[0].decode()):
        parse_request(frame)


AGENT = {"agent_id": "a", "incarnation": "i"}
RUN = {"kind": "run", "seq": 1, "run_id": "r", "epoch": 1, "status": "RUNNING", "at": 5}
LONG = "x" * (LONGEST_NAME + 1)


def json_frame(verb: str, **fields: Any) -> bytes:
    return f"{verb}\x01".encode() + msgspec.json.encode(fields)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (
            json_frame("HEARTBEAT", **AGENT, slots=2**63),
            "HEARTBEAT: Expected `int` <= 2147483647 - at `$.slots`",
        ),
        (json_frame("HEARTBEAT", **AGENT, slots=-1), "HEARTBEAT: Expected `int` >= 0 - at `$.slots`"),
        (
            json_frame("HEARTBEAT", **AGENT | {"agent_id": "a\0"}),
            "HEARTBEAT: Expected `str` without control characters - at `$.agent_id`",
        ),
        (
            json_frame("HEARTBEAT", **AGENT | {"incarnation": "i\n"}),
            "HEARTBEAT: Expected `str` without control characters - at `$.incarnation`",
        ),
        (
            json_frame("HEARTBEAT", **AGENT | {"agent_id": LONG}),
            "HEARTBEAT: Expected `str` of length <= 512 - at `$.agent_id`",
        ),
        (
            json_frame("HEARTBEAT", **AGENT, running=[["r", 2**64]]),
            "HEARTBEAT: Expected `int` <= 9007199254740992 - at `$.running[0][1]`",
        ),
        (
            b"REGISTERAGENT\x01a\0b",
            "REGISTERAGENT: Expected `str` without control characters - at `$.agent_id`",
        ),
        (b"REGISTERAGENT\x01", "REGISTERAGENT: Expected `str` of length >= 1 - at `$.agent_id`"),
        (
            b"FETCHWORKFLOW\x01" + LONG.encode(),
            "FETCHWORKFLOW: Expected `str` of length <= 512 - at `$.agent_id`",
        ),
        (
            b"FETCHRUN\x01a\x01i\0\x010",
            "FETCHRUN: Expected `str` without control characters - at `$.incarnation`",
        ),
        (
            b'FETCHRUN\x01a\x01i\x010\x01["r\\u0000"]',
            "FETCHRUN: Expected `str` without control characters - at `$.held[0]`",
        ),
        (b"CANCELRUN\x01r\x01no\0good", "CANCELRUN: Expected `str` without NUL - at `$.reason`"),
        (
            json_frame("RUNWORKFLOW", workflow_id="w", run_id="r\x7f"),
            "RUNWORKFLOW: Expected `str` without control characters - at `$.run_id`",
        ),
        (
            json_frame("SHIP", **AGENT, records=[RUN | {"at": 1 << 62}]),
            "SHIP: Expected `int` <= 253402300799999 - at `$.records[0].at`",
        ),
        (
            json_frame("SHIP", **AGENT, records=[RUN | {"seq": 1 << 63}]),
            "SHIP: Expected `int` <= 9007199254740992 - at `$.records[0].seq`",
        ),
        (
            json_frame("SHIP", **AGENT, records=[RUN | {"run_id": LONG}]),
            "SHIP: Expected `str` of length <= 512 - at `$.records[0].run_id`",
        ),
        (json_frame("GETLOGS", after=2**70), "GETLOGS: Expected `int` <= 9007199254740992 - at `$.after`"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, bytes) else "",
)
def test_ids_numbers_and_texts_have_bounds(frame: bytes, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_request(frame)
    assert str(caught.value) == text


def test_an_answer_does_not_repeat_all_of_what_was_wrong() -> None:
    verb = "X" * 100_000
    with pytest.raises(ProtocolError) as caught:
        parse_request(verb.encode())
    assert len(client_error(str(caught.value)).frame()) < 5_000


def test_tokens_and_keys_that_nobody_expects_are_ignored() -> None:
    assert parse_request(b"RUNTASK\x01w\x01more\x01and more") == r.RunTask("w")
    assert parse_request(b"PING\x01x") == r.Ping()
    assert parse_request(b'RUNWORKFLOW\x01{"workflow_id":"w","later":1}') == r.RunWorkflow(workflow_id="w")


def test_the_fifth_token_of_a_log_query_may_be_missing_or_anything() -> None:
    assert parse_request(b"QUERYLOGS\x01\x01\x01\x01") == r.QueryLogs()
    assert parse_request(b"QUERYLOGS\x01\x01\x01\x01\x01yes") == r.QueryLogs(verbose=True)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_protocol_error(frame: bytes) -> None:
    try:
        parsed = parse_request(frame)
    except ProtocolError as error:
        assert str(error)
    else:
        assert isinstance(parsed, r.Request)


def test_replies_to_the_byte() -> None:
    assert (PONG.frame(), OK.frame()) == (b"PONG", b"OK")
    assert success("[]").frame() == b"SUCCESS\x01[]"
    assert client_error("no").frame() == b"CLIENTERROR\x01no"
    assert server_error("oh").frame() == b"SERVERERROR\x01oh"
    assert Reply(Kind.UNPROC, "x").frame() == b"UNPROC\x01x"


@given(st.sampled_from([Kind.SUCCESS, Kind.CLIENTERROR, Kind.SERVERERROR]), st.text())
def test_a_payload_may_hold_the_separator(kind: Kind, payload: str) -> None:
    assert parse_reply(Reply(kind, payload).frame()) == Reply(kind, payload)


def test_an_unknown_reply_is_the_clients_error() -> None:
    assert parse_reply(b"WHAT\x01ever") == client_error("Unrecognized message type: WHAT")


def test_a_request_reads_its_own_answer() -> None:
    assert r.Ping().read(PONG) is None
    assert r.FetchRun("a", "i").read(OK) is None
    assert r.RunWorkflow(workflow_id="w").read(success('{"run_id":"r1"}')).run_id == "r1"
    with pytest.raises(RequestRefused, match="No workflow"):
        r.RunTask("w").read(client_error("No workflow exists with id w"))
    with pytest.raises(PrincipalFailed, match="disk"):
        r.RunTask("w").read(server_error("disk full"))
    with pytest.raises(PrincipalFailed, match="cannot be read"):
        r.GetRun("x").read(success("[]"))


def test_a_value_with_the_separator_cannot_be_sent() -> None:
    with pytest.raises(ProtocolError, match="0x01"):
        r.RunTask("a\x01b").frame()


def test_records_survive_the_wire() -> None:
    records = [
        RunRecord(seq=1, run_id="r", epoch=2, status=Status.RUNNING, at=5),
        TaskRecord(
            seq=2,
            run_id="r",
            epoch=2,
            task_id="t",
            task_instance_id="t1",
            status=Status.SKIPPED,
            at=6,
            exit_code=3,
        ),
        LogRecord(
            seq=3,
            run_id="r",
            epoch=2,
            workflow_id="w",
            workflow_name="W",
            task_name="T",
            task_instance_id="t1",
            at=7,
            level=Level.ERROR,
            count=2,
            lines=msgspec.Raw(b'["a\\u0001b","c"]'),
        ),
    ]
    parsed = parse_request(r.Ship(agent_id="a", incarnation="i", records=list(records)).frame())
    assert isinstance(parsed, r.Ship)
    assert parsed.records[:2] == records[:2]
    assert isinstance(parsed.records[2], LogRecord)
    assert msgspec.json.decode(parsed.records[2].lines) == ["a\x01b", "c"]


LINE = LogFrame(
    "etl.daily", "Daily", "slim-auk-0", "Extract", "old-owl-1", 1_700_000_000_123, "INFO", "STDOUT hi"
)


def test_a_log_frame_to_the_byte() -> None:
    frame = b"etl.daily\x01Daily\x01slim-auk-0\x01Extract\x01old-owl-1\x011700000000123\x01INFO\x01STDOUT hi"
    assert LINE.frame() == frame
    assert parse_log_frame(frame) == LINE


def test_a_log_payload_may_hold_the_separator() -> None:
    assert parse_log_frame(LINE.frame() + b"\x01more").payload == "STDOUT hi\x01more"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"a\x01b",
        b"\x01" * 6,
        b"a\x01b\x01c\x01d\x01e\x01now\x01INFO\x01x",
        b"a\x01b\x01c\x01d\x01e\x01999999999999999\x01INFO\x01x",
        b"a\x01b\x01c\x01" + b"d" * 513 + b"\x01e\x011\x01INFO\x01x",
    ],
)
def test_a_frame_that_is_no_log_line_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="log frame"):
        parse_log_frame(frame)


def test_log_lines_as_people_read_them() -> None:
    assert LINE.shown() == "[2023-11-14T22:13:20.123+00:00 INFO] [slim-auk-0/old-owl-1] STDOUT hi"
    names = "[Daily=slim-auk-0 / Extract=old-owl-1]"
    assert LINE.shown(verbose=True) == f"[2023-11-14T22:13:20.123+00:00 INFO] {names} STDOUT hi"
    assert shown_time(1_700_000_000_000) == "2023-11-14T22:13:20+00:00"


def test_old_peers_never_see_our_own_words() -> None:
    assert {status.for_old_peers for status in Status} == OLD
    assert Status.CANCELED.for_old_peers is Status.FAILED
