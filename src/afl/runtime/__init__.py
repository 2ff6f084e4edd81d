"""The runtime: AFL programs as durable runs.

Every public name can be imported from here, save MongoStore, which needs an extra, and the state handlers and changers,
which have modules of their own. Each is loaded when it is first asked for: whoever lists runs evaluates none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afl.runtime.agent import ClaudeAgentRunner
    from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
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
    from afl.runtime.entities import StatementDefinition as EntityStatementDefinition
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
    from afl.runtime.evaluator import Evaluator, ExecutionContext, ExecutionResult, ExecutionStatus
    from afl.runtime.events import EventDispatcher, EventManager, LocalEventHandler
    from afl.runtime.memory_store import MemoryStore
    from afl.runtime.persistence import EventDefinition, IterationChanges, PersistenceAPI
    from afl.runtime.program.block import BlockAnalysis, StatementDefinition, StepAnalysis
    from afl.runtime.program.dependency import DependencyGraph
    from afl.runtime.program.expression import EvaluationContext, ExpressionEvaluator, evaluate_args
    from afl.runtime.runner.config import RunnerConfig
    from afl.runtime.runner.service import RunnerService
    from afl.runtime.runner.system_tasks import RESUME_TASK_NAME
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
    from afl.runtime.step import StepDefinition, StepTransition
    from afl.runtime.store import open_store
    from afl.runtime.task_handlers.tool_definition import ToolDefinition
    from afl.runtime.task_handlers.tool_registry import ToolRegistry
    from afl.runtime.telemetry import Telemetry, TelemetryEvent
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

__all__ = [
    "BLOCK_TRANSITIONS",
    "EVENT_TRANSITIONS",
    "RESUME_TASK_NAME",
    "STEP_TRANSITIONS",
    "YIELD_TRANSITIONS",
    "AgentPoller",
    "AgentPollerConfig",
    "AttributeValue",
    "BlockAnalysis",
    "BlockDefinition",
    "BlockId",
    "BlockNotFoundError",
    "Classifier",
    "ClaudeAgentRunner",
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
    "RunnerConfig",
    "RunnerDefinition",
    "RunnerService",
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
    "ToolDefinition",
    "ToolRegistry",
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
    "open_store",
    "select_transitions",
    "step_id",
    "workflow_id",
]

_HOMES = {
    "agent": "ClaudeAgentRunner",
    "agent_poller": "AgentPoller AgentPollerConfig",
    "program.block": "BlockAnalysis StatementDefinition StepAnalysis",
    "program.dependency": "DependencyGraph",
    "entities": (
        "BlockDefinition Classifier FacetDefinition FileArtifact FlowDefinition FlowIdentity "
        "HandledCount InlineSource JarArtifact LockDefinition LockMetaData LogDefinition MixinDefinition "
        "NamespaceDefinition NoteImportance NoteOriginator NoteType Ownership Parameter ResourceSource "
        "RunDefinition RunnerDefinition RunnerState ScriptCode ServerDefinition ServerState SourceText "
        "StatementArguments StatementReferences TaskDefinition TaskState TextSource UserDefinition "
        "WorkflowDefinition WorkflowMetaData"
    ),
    "errors": (
        "BlockNotFoundError ConcurrencyError DependencyNotSatisfiedError EvaluationError EventError "
        "InvalidStepStateError InvalidTransitionError ReferenceError ResultError RuntimeError "
        "StepFailure StepNotFoundError VersionMismatchError"
    ),
    "evaluator": "Evaluator ExecutionContext ExecutionResult ExecutionStatus",
    "events": "EventDispatcher EventManager LocalEventHandler",
    "program.expression": "EvaluationContext ExpressionEvaluator evaluate_args",
    "memory_store": "MemoryStore",
    "persistence": "EventDefinition IterationChanges PersistenceAPI",
    "runner.config": "RunnerConfig",
    "runner.service": "RunnerService",
    "runner.system_tasks": "RESUME_TASK_NAME",
    "states": (
        "BLOCK_TRANSITIONS EVENT_TRANSITIONS EventState STEP_TRANSITIONS StepState YIELD_TRANSITIONS "
        "get_next_state select_transitions"
    ),
    "step": "StepDefinition StepTransition",
    "store": "open_store",
    "telemetry": "Telemetry TelemetryEvent",
    "task_handlers.tool_definition": "ToolDefinition",
    "task_handlers.tool_registry": "ToolRegistry",
    "types": (
        "AttributeValue BlockId EventId FacetAttributes ObjectType StatementId StepId VersionInfo "
        "WorkflowId block_id event_id generate_id step_id workflow_id"
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
_HOME_OF["EntityStatementDefinition"] = "entities"
_OWN_NAMES = {"EntityStatementDefinition": "StatementDefinition"}  # two kinds of statements have one name


if not TYPE_CHECKING:  # a type checker takes the imports above, and reports what is not there

    def __getattr__(name: str) -> Any:
        module = _HOME_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{module}"), _OWN_NAMES.get(name, name))
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
