"""From a frame to an answer: which verb, and what its errors are called on the wire."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from afl.fleet import requests
from afl.fleet.errors import ProtocolError
from afl.fleet.principal import agent_verbs, old_verbs, run_verbs
from afl.fleet.principal.desk import Answer, Desk
from afl.fleet.protocol import client_error, server_error
from afl.fleet.request_reader import parse_request
from afl.kernel.bounds import cut
from afl.kernel.errors import AgentFlowError, InputError

_log = logging.getLogger(__name__)

_VERBS: Mapping[type[requests.Request[Any]], Callable[[Desk, Any], Awaitable[Answer]]] = {
    requests.Ping: old_verbs.ping,
    requests.ListWorkflows: old_verbs.list_workflows,
    requests.RunTask: old_verbs.run_task,
    requests.RegisterAgent: old_verbs.register_agent,
    requests.FetchWorkflow: old_verbs.fetch_workflow,
    requests.AgentWorkflowStatus: old_verbs.workflow_status,
    requests.AgentTaskStatus: old_verbs.task_status,
    requests.QueryLogs: old_verbs.query_logs,
    requests.GetRecentStatuses: old_verbs.recent_statuses,
    requests.GetRegisteredAgents: old_verbs.registered_agents,
    requests.RunWorkflow: run_verbs.run_workflow,
    requests.CancelRun: run_verbs.cancel_run,
    requests.GetRun: run_verbs.get_run,
    requests.ListRuns: run_verbs.list_runs,
    requests.WatchRun: run_verbs.watch_run,
    requests.GetLogs: run_verbs.get_logs,
    requests.ListDefinitions: run_verbs.list_definitions,
    requests.CheckWorkflows: run_verbs.check_workflows,
    requests.ListAgents: run_verbs.list_agents,
    requests.FetchRun: agent_verbs.fetch_run,
    requests.Heartbeat: agent_verbs.heartbeat,
    requests.Ship: agent_verbs.ship,
}


async def answer(desk: Desk, frame: bytes) -> Answer:
    """Whatever the frame holds, there is an answer: no request can end the principal."""
    try:
        request = parse_request(frame)
        return await _VERBS[type(request)](desk, request)
    except ProtocolError as error:
        return Answer(client_error(f"ParseError: {error}"))
    except InputError as error:
        return Answer(client_error(str(error)))
    except AgentFlowError as error:
        _log.error("a request failed: %s", cut(str(error)))
        return Answer(server_error(str(error)))
    except Exception as error:
        _log.exception("a request failed for a reason that is a defect")
        return Answer(server_error(f"{type(error).__name__}: {error}"))
