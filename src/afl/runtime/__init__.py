"""The runtime: AFL programs as durable runs.

Every public name can be imported from here, save MongoStore, which needs an extra, and the state handlers and changers,
which have modules of their own. The evaluator and the store are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from afl.runtime.block import (
    BlockAnalysis,
    StatementDefinition,
    StepAnalysis,
)
from afl.runtime.dependency import (
    DependencyGraph,
)
from afl.runtime.entities import (
    BlockDefinition,
    Classifier,
    FacetDefinition,
    FileArtifact,
    FlowDefinition,
    FlowIdentity,
    HandledCount,
    InlineSource,
    JarArtifact,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    MixinDefinition,
    NamespaceDefinition,
    NoteImportance,
    NoteOriginator,
    NoteType,
    Ownership,
    Parameter,
    ResourceSource,
    RunDefinition,
    RunnerDefinition,
    RunnerState,
    ScriptCode,
    ServerDefinition,
    ServerState,
    SourceText,
    StatementArguments,
    StatementReferences,
    TaskDefinition,
    TaskState,
    TextSource,
    UserDefinition,
    WorkflowDefinition,
    WorkflowMetaData,
)
from afl.runtime.entities import (
    StatementDefinition as EntityStatementDefinition,
)
from afl.runtime.errors import (
    BlockNotFoundError,
    ConcurrencyError,
    DependencyNotSatisfiedError,
    EvaluationError,
    EventError,
    InvalidStepStateError,
    InvalidTransitionError,
    ReferenceError,
    ResultError,
    RuntimeError,
    StepFailure,
    StepNotFoundError,
    VersionMismatchError,
)
from afl.runtime.events import (
    EventDispatcher,
    EventManager,
    LocalEventHandler,
)
from afl.runtime.expression import (
    EvaluationContext,
    ExpressionEvaluator,
    evaluate_args,
)
from afl.runtime.persistence import (
    EventDefinition,
    IterationChanges,
    PersistenceAPI,
)
from afl.runtime.states import (
    BLOCK_TRANSITIONS,
    EVENT_TRANSITIONS,
    STEP_TRANSITIONS,
    YIELD_TRANSITIONS,
    EventState,
    StepState,
    get_next_state,
    select_transitions,
)
from afl.runtime.step import (
    StepDefinition,
    StepTransition,
)
from afl.runtime.telemetry import (
    Telemetry,
    TelemetryEvent,
)
from afl.runtime.types import (
    AttributeValue,
    BlockId,
    EventId,
    FacetAttributes,
    ObjectType,
    StatementId,
    StepId,
    VersionInfo,
    WorkflowId,
    block_id,
    event_id,
    generate_id,
    step_id,
    workflow_id,
)

if TYPE_CHECKING:
    from afl.runtime.evaluator import (
        Evaluator,
        ExecutionContext,
        ExecutionResult,
        ExecutionStatus,
    )
    from afl.runtime.memory_store import (
        MemoryStore,
    )

__all__ = [
    "BLOCK_TRANSITIONS",
    "EVENT_TRANSITIONS",
    "STEP_TRANSITIONS",
    "YIELD_TRANSITIONS",
    "AttributeValue",
    "BlockAnalysis",
    "BlockDefinition",
    "BlockId",
    "BlockNotFoundError",
    "Classifier",
    "ConcurrencyError",
    "DependencyGraph",
    "DependencyNotSatisfiedError",
    "EntityStatementDefinition",
    "EvaluationContext",
    "EvaluationError",
    "Evaluator",
    "EventDefinition",
    "EventDispatcher",
    "EventError",
    "EventId",
    "EventManager",
    "EventState",
    "ExecutionContext",
    "ExecutionResult",
    "ExecutionStatus",
    "ExpressionEvaluator",
    "FacetAttributes",
    "FacetDefinition",
    "FileArtifact",
    "FlowDefinition",
    "FlowIdentity",
    "HandledCount",
    "InlineSource",
    "InvalidStepStateError",
    "InvalidTransitionError",
    "IterationChanges",
    "JarArtifact",
    "LocalEventHandler",
    "LockDefinition",
    "LockMetaData",
    "LogDefinition",
    "MemoryStore",
    "MixinDefinition",
    "NamespaceDefinition",
    "NoteImportance",
    "NoteOriginator",
    "NoteType",
    "ObjectType",
    "Ownership",
    "Parameter",
    "PersistenceAPI",
    "ReferenceError",
    "ResourceSource",
    "ResultError",
    "RunDefinition",
    "RunnerDefinition",
    "RunnerState",
    "RuntimeError",
    "ScriptCode",
    "ServerDefinition",
    "ServerState",
    "SourceText",
    "StatementArguments",
    "StatementDefinition",
    "StatementId",
    "StatementReferences",
    "StepAnalysis",
    "StepDefinition",
    "StepFailure",
    "StepId",
    "StepNotFoundError",
    "StepState",
    "StepTransition",
    "TaskDefinition",
    "TaskState",
    "Telemetry",
    "TelemetryEvent",
    "TextSource",
    "UserDefinition",
    "VersionInfo",
    "VersionMismatchError",
    "WorkflowDefinition",
    "WorkflowId",
    "WorkflowMetaData",
    "block_id",
    "evaluate_args",
    "event_id",
    "generate_id",
    "get_next_state",
    "select_transitions",
    "step_id",
    "workflow_id",
]

_ON_DEMAND = {
    "Evaluator": "evaluator",
    "ExecutionContext": "evaluator",
    "ExecutionResult": "evaluator",
    "ExecutionStatus": "evaluator",
    "MemoryStore": "memory_store",
}


def __getattr__(name: str) -> Any:
    module = _ON_DEMAND.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND})
