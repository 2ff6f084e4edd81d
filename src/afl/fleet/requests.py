"""Every verb of the request socket as a typed request: `frame()` writes it, `request_reader` reads it.

The first ten are the reference's. The others are ours: they carry one JSON object, or a few tokens, and answer
SUCCESS with the JSON of a type of `answers`. `...wait_ms` verbs are long polls: they are parked until there is an
answer, at most that long.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar, cast

import msgspec

from afl.fleet.answers import (
    Acked,
    AgentStatus,
    AgentView,
    Commands,
    FetchedRun,
    FileProblem,
    LogPage,
    RecentStatus,
    RunDetail,
    RunView,
    Started,
    decode_answer,
)
from afl.fleet.errors import PrincipalFailed, RequestRefused
from afl.fleet.protocol import SOH, Kind, Reply, join
from afl.fleet.records import Record
from afl.fleet.statuses import Status

A = TypeVar("A")
_SOH = SOH.encode()


class Request(msgspec.Struct, Generic[A], frozen=True):
    """One request, and the type it is answered with; None stands for OK and PONG."""

    verb: ClassVar[str] = ""
    answer: ClassVar[Any] = None

    def frame(self) -> bytes:
        return join([self.verb, *self.tokens()])

    def tokens(self) -> list[str]:
        """What follows the verb."""
        return []

    def parks(self) -> int:
        """How long the principal may keep it before it answers, in milliseconds."""
        return 0

    def read(self, reply: Reply) -> A:
        """What the reply says; an error reply is raised."""
        if reply.kind in (Kind.CLIENTERROR, Kind.UNPROC):
            raise RequestRefused(reply.payload)
        if reply.is_error:
            raise PrincipalFailed(f"the principal could not answer {self.verb}: {reply.payload}")
        if reply.kind is not Kind.SUCCESS or self.answer is None:
            return cast("A", None)
        try:
            return cast("A", decode_answer(reply.payload, self.answer))
        except msgspec.DecodeError as error:
            raise PrincipalFailed(f"the principal's answer to {self.verb} cannot be read: {error}") from error


class JsonRequest(Request[A], frozen=True):
    """A request whose one token is the JSON of its fields; keys it does not know are ignored."""

    def frame(self) -> bytes:
        return self.verb.encode() + _SOH + msgspec.json.encode(self)


class Ping(Request[None], frozen=True):
    verb = "PING"


class ListWorkflows(Request[dict[str, Any]], frozen=True):
    """The workflows that peers of the reference can read, with the keys that they know."""

    verb = "LSWORKFLOWS"
    answer = dict[str, Any]


class RunTask(Request[None], frozen=True):
    verb = "RUNTASK"
    workflow_id: str

    def tokens(self) -> list[str]:
        return [self.workflow_id]


class RegisterAgent(Request[None], frozen=True):
    """Also the heartbeat of an old agent."""

    verb = "REGISTERAGENT"
    agent_id: str

    def tokens(self) -> list[str]:
        return [self.agent_id]


class FetchWorkflow(Request[dict[str, Any] | None], frozen=True):
    verb = "FETCHWORKFLOW"
    answer = dict[str, Any]
    agent_id: str

    def tokens(self) -> list[str]:
        return [self.agent_id]


class AgentWorkflowStatus(Request[None], frozen=True):
    verb = "AGENTWORKFLOWSTATUS"
    agent_id: str
    workflow_id: str
    workflow_instance_id: str
    status: Status

    def tokens(self) -> list[str]:
        return [self.agent_id, self.workflow_id, self.workflow_instance_id, self.status.value]


class AgentTaskStatus(Request[None], frozen=True):
    verb = "AGENTTASKSTATUS"
    agent_id: str
    task_id: str
    task_instance_id: str
    workflow_instance_id: str
    status: Status

    def tokens(self) -> list[str]:
        ids = [self.agent_id, self.task_id, self.task_instance_id, self.workflow_instance_id]
        return [*ids, self.status.value]


class QueryLogs(Request[list[str]], frozen=True):
    """Lines from `start_ms` (with) to `end_ms` (without); by default the last 24 hours."""

    verb = "QUERYLOGS"
    answer = list[str]
    end_ms: int | None = None
    start_ms: int | None = None
    workflow_id: str | None = None
    workflow_instance_id: str | None = None
    verbose: bool = False

    def tokens(self) -> list[str]:
        times = ["" if moment is None else str(moment) for moment in (self.end_ms, self.start_ms)]
        return [*times, self.workflow_id or "", self.workflow_instance_id or "", "v" if self.verbose else ""]


class GetRecentStatuses(Request[list[RecentStatus]], frozen=True):
    verb = "GETRECENTSTATUSES"
    answer = list[RecentStatus]


class GetRegisteredAgents(Request[list[AgentStatus]], frozen=True):
    verb = "GETREGISTEREDAGENTS"
    answer = list[AgentStatus]


class RunWorkflow(JsonRequest[Started], frozen=True, kw_only=True):
    """Start a run; the same `run_id` again is the same run. Answers Started."""

    verb = "RUNWORKFLOW"
    answer = Started
    workflow_id: str
    params: dict[str, Any] = {}
    run_id: str = ""


class FetchRun(Request[FetchedRun | None], frozen=True):
    """Ask for a run, one request at a time per incarnation. Answers OK (none) or FetchedRun.

    `held` names the runs in hand, so that one whose answer was lost on the way is given out again at once.
    """

    verb = "FETCHRUN"
    answer = FetchedRun
    agent_id: str
    incarnation: str
    wait_ms: int = 0
    held: tuple[str, ...] | None = None

    def parks(self) -> int:
        return self.wait_ms

    def tokens(self) -> list[str]:
        held = "" if self.held is None else msgspec.json.encode(self.held).decode()
        return [self.agent_id, self.incarnation, str(self.wait_ms), held]


class Heartbeat(JsonRequest[Commands], frozen=True, kw_only=True):
    """The agent lives and works on `running` (run id, epoch). Answers Commands, at once when there are any."""

    verb = "HEARTBEAT"
    answer = Commands
    agent_id: str
    incarnation: str
    slots: int = 0
    running: list[tuple[str, int]] = []
    wait_ms: int = 0

    def parks(self) -> int:
        return self.wait_ms


class Ship(JsonRequest[Acked], frozen=True, kw_only=True):
    """Records in order. `oldest` is the lowest number the sender still has. Answers Acked, after the commit."""

    verb = "SHIP"
    answer = Acked
    agent_id: str
    incarnation: str
    stream: str = "main"
    records: list[Record]
    oldest: int = 1


class CancelRun(Request[RunView], frozen=True):
    """Answers RunView."""

    verb = "CANCELRUN"
    answer = RunView
    run_id: str
    reason: str = ""

    def tokens(self) -> list[str]:
        return [self.run_id, self.reason]


class GetRun(Request[RunDetail], frozen=True):
    """Answers RunDetail."""

    verb = "GETRUN"
    answer = RunDetail
    run_id: str

    def tokens(self) -> list[str]:
        return [self.run_id]


class ListRuns(JsonRequest[list[RunView]], frozen=True, kw_only=True):
    """The newest runs first. Answers a list of RunView."""

    verb = "LISTRUNS"
    answer = list[RunView]
    workflow_id: str = ""
    agent_id: str = ""
    statuses: list[Status] = []
    before: str = ""
    limit: int = 50


class WatchRun(Request[RunDetail], frozen=True):
    """Answers RunDetail as soon as its version differs from the one given."""

    verb = "WATCHRUN"
    answer = RunDetail
    run_id: str
    version: int = 0
    wait_ms: int = 0

    def parks(self) -> int:
        return self.wait_ms

    def tokens(self) -> list[str]:
        return [self.run_id, str(self.version), str(self.wait_ms)]


class GetLogs(JsonRequest[LogPage], frozen=True, kw_only=True):
    """Lines behind a position, in the order they arrived. Answers LogPage; with `wait_ms` once there are any.

    `last` instead of `after`: the last so many lines that there are.
    """

    verb = "GETLOGS"
    answer = LogPage
    run_id: str = ""
    workflow_id: str = ""
    task_instance_id: str = ""
    start_ms: int | None = None
    end_ms: int | None = None
    after: int = 0
    last: int = 0
    limit: int = 1000
    wait_ms: int = 0

    def parks(self) -> int:
        return self.wait_ms


class ListDefinitions(Request[dict[str, Any]], frozen=True):
    """Every workflow by its id, with all its keys."""

    verb = "LISTDEFINITIONS"
    answer = dict[str, Any]


class CheckWorkflows(Request[list[FileProblem]], frozen=True):
    """Answers a list of FileProblem."""

    verb = "CHECKWORKFLOWS"
    answer = list[FileProblem]


class ListAgents(Request[list[AgentView]], frozen=True):
    """Answers a list of AgentView."""

    verb = "LISTAGENTS"
    answer = list[AgentView]
