"""Parses a frame into a request. Error texts are those of the reference.

A parsed request is within the bounds that its type declares: ids and numbers need no further checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from afl.fleet.errors import ProtocolError
from afl.fleet.messages import OLD, Status
from afl.fleet.protocol import SOH
from afl.fleet.requests import (
    AgentTaskStatus,
    AgentWorkflowStatus,
    CancelRun,
    CheckWorkflows,
    FetchRun,
    FetchWorkflow,
    GetLogs,
    GetRecentStatuses,
    GetRegisteredAgents,
    GetRun,
    Heartbeat,
    JsonRequest,
    ListAgents,
    ListDefinitions,
    ListRuns,
    ListWorkflows,
    Ping,
    QueryLogs,
    RegisterAgent,
    Request,
    RunTask,
    RunWorkflow,
    Ship,
    WatchRun,
)
from afl.kernel.bounds import reason

_SOH = SOH.encode()


def parse_request(frame: bytes) -> Request[Any]:
    """The request in a frame; ProtocolError has the text of the reference."""
    word, *tokens = frame.split(_SOH)
    verb = word.decode("utf-8", "replace")
    if verb in _PLAIN:
        return _PLAIN[verb]()
    if verb in _JSON:
        return _parse_json(_JSON[verb], tokens)
    if verb not in _TOKENS:
        raise ProtocolError(f"Unrecognized message type: {verb}")
    try:
        texts = [token.decode() for token in tokens]
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{verb} is not UTF-8 text: {error.reason}") from error
    return _bounded(_TOKENS[verb](texts))


def _bounded(request: Request[Any]) -> Request[Any]:
    """Validate the request as if it were JSON, so that the types of its fields bound tokens too."""
    try:
        bounded: Request[Any] = msgspec.convert(msgspec.structs.asdict(request), type=type(request))
    except msgspec.ValidationError as error:
        raise ProtocolError(f"{request.verb}: {reason(error)}") from error
    return bounded


def _parse_json(kind: type[JsonRequest[Any]], tokens: list[bytes]) -> JsonRequest[Any]:
    if not tokens:
        raise ProtocolError(f"Missing the JSON object of {kind.verb}")
    try:
        request: JsonRequest[Any] = msgspec.json.decode(tokens[0], type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = reason(error) if isinstance(error, msgspec.DecodeError) else error
        raise ProtocolError(f"{kind.verb}: {said}") from error
    return request


def _given(tokens: list[str], *names: str) -> list[str]:
    """The first tokens, one per message; the message of a missing one is the error."""
    if len(tokens) < len(names):
        raise ProtocolError(names[len(tokens)])
    return tokens[: len(names)]


def _status(token: str) -> Status:
    if token not in OLD:
        raise ProtocolError(f"Unrecognized task status: {token}")
    return Status(token)


def _moment(token: str) -> int | None:
    if token and not re.fullmatch(r"[+-]?[0-9]{1,18}", token):
        raise ProtocolError("Not a valid end timestamp")
    return int(token) if token else None


def _number(token: str, name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", token):
        raise ProtocolError(f"{name} is {token!r}; expected a whole number")
    return int(token)


def _workflow_status(tokens: list[str]) -> AgentWorkflowStatus:
    names = (
        "AGENT_ID",
        "TASK_ID",
        "TASK_EXECUTION_ID",
        "TASK_STATUS",
    )  # the names of the reference, for workflows too
    agent, workflow, instance, status = _given(tokens, *(f"Missing arg {name}" for name in names))
    return AgentWorkflowStatus(agent, workflow, instance, _status(status))


def _task_status(tokens: list[str]) -> AgentTaskStatus:
    names = ("AGENT_ID", "TASK_ID", "TASK_EXECUTION_ID", "WORKFLOW_INSTANCE_ID", "TASK_STATUS")
    agent, task, instance, run, status = _given(tokens, *(f"Missing arg {name}" for name in names))
    return AgentTaskStatus(agent, task, instance, run, _status(status))


def _query_logs(tokens: list[str]) -> QueryLogs:
    names = ("START_TIMESTAMP", "WORKFLOW_ID", "WORKFLOW_INSTANCE_ID")
    missing = ["Missing END_TIMESTAMP", *(f"Missing {name} parameter" for name in names)]
    end, start, workflow, instance = _given(tokens, *missing)
    verbose = len(tokens) > 4 and tokens[4] != ""
    return QueryLogs(_moment(end), _moment(start), workflow or None, instance or None, verbose)


def _fetch_run(tokens: list[str]) -> FetchRun:
    agent, incarnation, wait = _given(
        tokens, "Missing arg AGENT_ID", "Missing arg INCARNATION", "Missing arg WAIT_MS"
    )
    held: tuple[str, ...] | None = None
    if len(tokens) > 3 and tokens[3]:
        try:
            held = msgspec.json.decode(tokens[3], type=tuple[str, ...])
        except (msgspec.DecodeError, RecursionError) as error:
            said = reason(error) if isinstance(error, msgspec.DecodeError) else error
            raise ProtocolError(f"FETCHRUN: {said}") from error
    return FetchRun(agent, incarnation, _number(wait, "WAIT_MS"), held)


def _cancel_run(tokens: list[str]) -> CancelRun:
    (run_id,) = _given(tokens, "Missing arg RUN_ID")
    return CancelRun(run_id, SOH.join(tokens[1:]))


def _watch_run(tokens: list[str]) -> WatchRun:
    names = ("RUN_ID", "VERSION", "WAIT_MS")
    run_id, version, wait = _given(tokens, *(f"Missing arg {name}" for name in names))
    return WatchRun(run_id, _number(version, "VERSION"), _number(wait, "WAIT_MS"))


_PLAIN: dict[str, type[Request[Any]]] = {
    kind.verb: kind
    for kind in (
        Ping,
        ListWorkflows,
        GetRecentStatuses,
        GetRegisteredAgents,
        ListDefinitions,
        CheckWorkflows,
        ListAgents,
    )
}
_JSON: dict[str, type[JsonRequest[Any]]] = {
    kind.verb: kind for kind in (RunWorkflow, Heartbeat, Ship, ListRuns, GetLogs)
}
_TOKENS: dict[str, Callable[[list[str]], Request[Any]]] = {
    "RUNTASK": lambda tokens: RunTask(*_given(tokens, "Request is missing task_id")),
    "REGISTERAGENT": lambda tokens: RegisterAgent(*_given(tokens, "Missing arg AGENT_ID")),
    "FETCHWORKFLOW": lambda tokens: FetchWorkflow(*_given(tokens, "Missing agent id")),
    "AGENTWORKFLOWSTATUS": _workflow_status,
    "AGENTTASKSTATUS": _task_status,
    "QUERYLOGS": _query_logs,
    "FETCHRUN": _fetch_run,
    "CANCELRUN": _cancel_run,
    "GETRUN": lambda tokens: GetRun(*_given(tokens, "Missing arg RUN_ID")),
    "WATCHRUN": _watch_run,
}
