"""Plain records of the runtime: flows, runs, tasks, logs, servers, locks. Times are milliseconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class RunnerState:
    """States of a run's record."""

    CREATED = "created"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class TaskState:
    """States of a task."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    IGNORED = "ignored"
    CANCELED = "canceled"


class TaskHold:
    """Why a pending task is not to be claimed."""

    CONCURRENCY = "concurrency"  # as many as allowed with its key are under way
    PAUSED = "paused"  # its run is
    POISONED = "poisoned"  # too many workers died on it; a sweep will fail its step
    TIMEOUT = "timeout"  # its time was up; a sweep will try it again or fail its step
    ELSEWHERE = (
        "elsewhere"  # an agent, the fleet, a message or a person has it; on an ended task: not told yet
    )


class ServerState:
    """States of a server."""

    STARTUP = "startup"
    RUNNING = "running"
    SHUTDOWN = "shutdown"
    ERROR = "error"


class NoteType:
    """Kinds of log entries."""

    ERROR = "error"
    INFO = "info"
    WARNING = "warning"


class NoteOriginator:
    """Who wrote a log entry."""

    WORKFLOW = "workflow"
    AGENT = "agent"


class NoteImportance:
    """How much a log entry matters."""

    HIGH = 1
    NORMAL = 5
    LOW = 10


@dataclass
class Parameter:
    name: str
    value: Any
    type_hint: str = "Any"


@dataclass
class UserDefinition:
    email: str
    name: str = ""
    avatar: str = ""


@dataclass
class Ownership:
    owner: UserDefinition | None = None
    group: str = ""


@dataclass
class Classifier:
    category: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass
class SourceText:
    name: str
    content: str
    language: str = "afl"


@dataclass
class InlineSource:
    content: str
    language: str = "afl"


@dataclass
class FileArtifact:
    path: str
    checksum: str = ""


@dataclass
class JarArtifact:
    group_id: str
    artifact_id: str
    version: str


@dataclass
class ResourceSource:
    name: str
    path: str


@dataclass
class TextSource:
    name: str
    content: str


@dataclass
class ScriptCode:
    name: str
    code: str
    language: str = "python"


@dataclass
class WorkflowMetaData:
    description: str = ""
    author: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass
class NamespaceDefinition:
    uuid: str
    name: str
    path: str = ""


@dataclass
class FacetDefinition:
    uuid: str
    name: str
    namespace_id: str
    parameters: list[Parameter] = field(default_factory=list)
    return_type: str | None = None


@dataclass
class MixinDefinition:
    uuid: str
    name: str
    namespace_id: str
    parameters: list[Parameter] = field(default_factory=list)


@dataclass
class BlockDefinition:
    uuid: str
    name: str
    block_type: str
    statements: list[str] = field(default_factory=list)


@dataclass
class StatementDefinition:
    uuid: str
    name: str
    statement_type: str
    block_id: str | None = None
    expression: str | None = None


@dataclass
class StatementArguments:
    statement_id: str
    arguments: list[Parameter] = field(default_factory=list)


@dataclass
class StatementReferences:
    statement_id: str
    references: list[str] = field(default_factory=list)


@dataclass
class FlowIdentity:
    name: str
    path: str
    uuid: str


@dataclass
class WorkflowDefinition:
    """A workflow of a flow: what can be started."""

    uuid: str
    name: str
    namespace_id: str
    facet_id: str
    flow_id: str
    starting_step: str
    version: str
    metadata: WorkflowMetaData | None = None
    documentation: str | None = None
    date: int = 0


@dataclass
class FlowDefinition:
    """A published set of sources; `compiled_sources` holds their text."""

    uuid: str
    name: FlowIdentity
    namespaces: list[NamespaceDefinition] = field(default_factory=list)
    facets: list[FacetDefinition] = field(default_factory=list)
    workflows: list[WorkflowDefinition] = field(default_factory=list)
    mixins: list[MixinDefinition] = field(default_factory=list)
    blocks: list[BlockDefinition] = field(default_factory=list)
    statements: list[StatementDefinition] = field(default_factory=list)
    arguments: list[StatementArguments] = field(default_factory=list)
    references: list[StatementReferences] = field(default_factory=list)
    script_code: list[ScriptCode] = field(default_factory=list)
    file_artifacts: list[FileArtifact] = field(default_factory=list)
    jar_artifacts: list[JarArtifact] = field(default_factory=list)
    resources: list[ResourceSource] = field(default_factory=list)
    text_sources: list[TextSource] = field(default_factory=list)
    inline: InlineSource | None = None
    classification: Classifier | None = None
    publisher: UserDefinition | None = None
    ownership: Ownership | None = None
    compiled_sources: list[SourceText] = field(default_factory=list)


@dataclass
class RunnerDefinition:
    """The record people see of one run; it follows the run's state."""

    uuid: str
    workflow_id: str
    workflow: WorkflowDefinition
    parameters: list[Parameter] = field(default_factory=list)
    step_id: str | None = None
    user: UserDefinition | None = None
    start_time: int = 0
    end_time: int = 0
    duration: int = 0
    retain: int = 0
    state: str = RunnerState.CREATED


@dataclass
class TaskDefinition:
    """A claimable piece of work.

    `runner_id` is the creator, `owner` the claimer; `epoch` grows with every claim, and a write under an older
    epoch has no effect. `started` is when the handler of the current claim began, `deliveries` counts claims,
    `deaths` those that ended with the owner's death, `failures` those after which it was tried again.

    `timeout_ms`, `retry` and the concurrency key and limit are the workflow's policies; `hold` says why a pending
    task is not to be claimed (a word of TaskHold), `last_owner` who had it before. `not_before`, `deadline`,
    `lease_until` and `lock_until` are times of the store's clock; 0: none.

    Work that goes on elsewhere says where by `via` ("agent:researcher", "fleet:etl.daily", "message:translator",
    "human:finance"; "" for all other tasks), and `bridge` has what else is to be known there. After `patience_ms`
    of waiting for a person somebody else is asked; when, says `lease_until`.
    """

    uuid: str
    name: str
    runner_id: str
    workflow_id: str
    flow_id: str
    step_id: str
    state: str = TaskState.PENDING
    created: int = 0
    updated: int = 0
    error: dict[str, Any] | None = None
    task_list_name: str = "default"
    data_type: str = ""
    data: dict[str, Any] | None = None
    priority: int = 0
    owner: str = ""
    epoch: int = 0
    lease_until: int = 0
    started: int = 0
    deliveries: int = 0
    deaths: int = 0
    result: dict[str, Any] | None = None
    timeout_ms: int = 0
    retry: dict[str, Any] | None = None
    concurrency_key: str = ""
    concurrency_limit: int = 0
    hold: str = ""
    not_before: int = 0
    deadline: int = 0
    failures: int = 0
    lock_until: int = 0
    last_owner: str = ""
    via: str = ""
    bridge: dict[str, Any] | None = None
    patience_ms: int = 0


@dataclass
class LogDefinition:
    """One entry of a run's log."""

    uuid: str
    order: int
    runner_id: str
    step_id: str | None = None
    object_id: str = ""
    object_type: str = ""
    note_originator: str = NoteOriginator.WORKFLOW
    note_type: str = NoteType.INFO
    note_importance: int = NoteImportance.NORMAL
    message: str = ""
    state: str = ""
    line: int = 0
    file: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    time: int = 0


@dataclass
class HandledCount:
    handler: str
    handled: int = 0
    not_handled: int = 0


@dataclass
class ServerDefinition:
    """A service that works on tasks. `manager` is the process it runs in, by the name under which that holds tasks.

    It claims from `task_list`, at most `capacity` tasks at a time (0: unknown); with `any_event` whatever their name.
    """

    uuid: str
    server_group: str
    service_name: str
    server_name: str
    server_ips: list[str] = field(default_factory=list)
    start_time: int = 0
    ping_time: int = 0
    topics: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    handled: list[HandledCount] = field(default_factory=list)
    state: str = ServerState.STARTUP
    manager: str = ""
    error: dict[str, Any] | None = None
    task_list: str = "default"
    capacity: int = 0
    any_event: bool = False


@dataclass
class LockMetaData:
    topic: str | None = None
    handler: str | None = None
    step_name: str | None = None
    step_id: str | None = None


@dataclass
class LockDefinition:
    """A named lock, with times of the store's clock.

    Its owner may release or extend it, and so may a caller that names no owner.
    """

    key: str
    acquired_at: int = 0
    expires_at: int = 0
    meta: LockMetaData | None = None
    owner: str = ""


@dataclass
class RunDefinition:
    """One run of a workflow, held by at most one evaluator at a time under (owner, epoch, lease_until).

    `settled` says that the last commit was at a fixed point: nothing was left to look at but what outsiders send.
    `waiting` counts the steps at EventTransmit. `reason` says who or what paused or cancelled the run.
    """

    workflow_id: str
    workflow_name: str
    program_hash: str
    state: str = RunnerState.RUNNING
    runner_id: str = ""
    flow_id: str = ""
    task_list: str = "default"
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    iterations: int = 0
    waiting: int = 0
    settled: bool = False
    created: int = 0
    updated: int = 0
    ended: int = 0
    owner: str = ""
    epoch: int = 0
    lease_until: int = 0
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the run ended."""
        return self.state in (RunnerState.COMPLETED, RunnerState.FAILED, RunnerState.CANCELLED)
