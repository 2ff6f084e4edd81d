"""Every verb of the request socket as a typed request: `frame()` encodes it, `request_reader` parses it.

The first ten are the reference's. The others are ours: they carry one JSON object, or a few tokens, and answer
SUCCESS with the JSON of a type of `messages`. Verbs with `wait_ms` are long polls: they wait for an answer at most
that long. The types of the fields declare what is valid; `request_reader` enforces them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Generic, TypeVar, cast

import msgspec
from msgspec import Meta

from afl.fleet.errors import PrincipalFailed, RequestRefused
from afl.fleet.messages import (
    Acked,
    AgentStatus,
    AgentView,
    Commands,
    FetchedRun,
    FileProblem,
    LogPage,
    RecentStatus,
    Record,
    RunDetail,
    RunView,
    Started,
    Status,
    decode_answer,
)
from afl.fleet.protocol import SOH, Kind, Reply, join
from afl.kernel.bounds import MOST_ITEMS, Count, Integer, Name, NameOrNothing, Position, Text

A = TypeVar("A")
_MOST_HELD = 10_000  # runs that one agent holds
_SOH = SOH.encode()


class Request(msgspec.Struct, Generic[A], frozen=True):
    """One request, and the type of its answer; None stands for OK and PONG."""

    verb: ClassVar[str] = ""
    answer: ClassVar[Any] = None

    def frame(self) -> bytes:
        return join([self.verb, *self.tokens()])

    def tokens(self) -> list[str]:
        """The tokens after the verb: the fields, in order."""
        return [str(value) for value in msgspec.structs.astuple(self)]

    def longest_wait_ms(self) -> int:
        """How long the principal may wait before it answers, in milliseconds."""
        return getattr(self, "wait_ms", 0)

    def read(self, reply: Reply) -> A:
        """The content of a reply; an error reply is raised."""
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
    """A request whose one token is the JSON of its fields; unknown keys are ignored."""

    def frame(self) -> bytes:
        return self.verb.encode() + _SOH + msgspec.json.encode(self)


class Ping(Request[None], frozen=True):
    verb = "PING"


class ListWorkflows(Request[dict[str, Any]], frozen=True):
    """The workflows that peers of the reference can run, with the keys that they know."""

    verb = "LSWORKFLOWS"
    answer = dict[str, Any]


class RunTask(Request[None], frozen=True):
    verb = "RUNTASK"
    workflow_id: Name


class RegisterAgent(Request[None], frozen=True):
    """Also the heartbeat of an old agent."""

    verb = "REGISTERAGENT"
    agent_id: Name


class FetchWorkflow(Request[dict[str, Any] | None], frozen=True):
    verb = "FETCHWORKFLOW"
    answer = dict[str, Any]
    agent_id: Name


class AgentWorkflowStatus(Request[None], frozen=True):
    verb = "AGENTWORKFLOWSTATUS"
    agent_id: Name
    workflow_id: Name
    workflow_instance_id: Name
    status: Status


class AgentTaskStatus(Request[None], frozen=True):
    verb = "AGENTTASKSTATUS"
    agent_id: Name
    task_id: Name
    task_instance_id: Name
    workflow_instance_id: Name
    status: Status


class QueryLogs(Request[list[str]], frozen=True):
    """Lines from `start_ms` (inclusive) to `end_ms` (exclusive); by default the last 24 hours."""

    verb = "QUERYLOGS"
    answer = list[str]
    end_ms: Integer | None = None
    start_ms: Integer | None = None
    workflow_id: Name | None = None
    workflow_instance_id: Name | None = None
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
    workflow_id: Name
    params: dict[Name, Any] = {}
    run_id: NameOrNothing = ""


class FetchRun(Request[FetchedRun | None], frozen=True):
    """Ask for a run, one request at a time per incarnation. Answers OK (none) or FetchedRun.

    `held` names the held runs, so that one whose answer was lost is sent again at once.
    """

    verb = "FETCHRUN"
    answer = FetchedRun
    agent_id: Name
    incarnation: Name
    wait_ms: Position = 0
    held: Annotated[tuple[Name, ...], Meta(max_length=_MOST_HELD)] | None = None

    def tokens(self) -> list[str]:
        held = "" if self.held is None else msgspec.json.encode(self.held).decode()
        return [self.agent_id, self.incarnation, str(self.wait_ms), held]


class Heartbeat(JsonRequest[Commands], frozen=True, kw_only=True):
    """The agent is alive and runs `running` (run id, epoch). Answers Commands, at once when there are any."""

    verb = "HEARTBEAT"
    answer = Commands
    agent_id: Name
    incarnation: Name
    slots: Count = 0
    running: Annotated[list[tuple[Name, Position]], Meta(max_length=_MOST_HELD)] = []
    wait_ms: Position = 0


class Ship(JsonRequest[Acked], frozen=True, kw_only=True):
    """Records in order. `oldest` is the lowest number that the sender still has. Answers Acked, after the commit."""

    verb = "SHIP"
    answer = Acked
    agent_id: Name
    incarnation: Name
    stream: Name = "main"
    records: Annotated[list[Record], Meta(max_length=MOST_ITEMS)]
    oldest: Position = 1


class CancelRun(Request[RunView], frozen=True):
    """Answers RunView."""

    verb = "CANCELRUN"
    answer = RunView
    run_id: Name
    reason: Text = ""


class GetRun(Request[RunDetail], frozen=True):
    """Answers RunDetail."""

    verb = "GETRUN"
    answer = RunDetail
    run_id: Name


class ListRuns(JsonRequest[list[RunView]], frozen=True, kw_only=True):
    """Newest first. Answers a list of RunView."""

    verb = "LISTRUNS"
    answer = list[RunView]
    workflow_id: NameOrNothing = ""
    agent_id: NameOrNothing = ""
    statuses: Annotated[list[Status], Meta(max_length=100)] = []
    before: NameOrNothing = ""
    limit: Integer = 50


class WatchRun(Request[RunDetail], frozen=True):
    """Answers RunDetail as soon as its version differs from the one given."""

    verb = "WATCHRUN"
    answer = RunDetail
    run_id: Name
    version: Position = 0
    wait_ms: Position = 0


class GetLogs(JsonRequest[LogPage], frozen=True, kw_only=True):
    """Lines after a position, in the order they arrived. Answers LogPage; with `wait_ms` once there are any.

    `last` instead of `after`: the last lines, at most that many.
    """

    verb = "GETLOGS"
    answer = LogPage
    run_id: NameOrNothing = ""
    workflow_id: NameOrNothing = ""
    task_instance_id: NameOrNothing = ""
    level: NameOrNothing = ""
    start_ms: Integer | None = None
    end_ms: Integer | None = None
    after: Position = 0
    last: Integer = 0
    limit: Integer = 1000
    wait_ms: Position = 0


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
