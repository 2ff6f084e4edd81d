"""The runtime: AFL programs as durable runs.

Every public name can be imported from here, save MongoStore, which needs an extra, and the state handlers and changers,
which have modules of their own. Each is loaded when it is first asked for: whoever lists runs evaluates none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.kernel.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl.runtime.agent import ClaudeAgentRunner as ClaudeAgentRunner
    from afl.runtime.agent_poller import AgentPoller as AgentPoller
    from afl.runtime.agent_poller import AgentPollerConfig as AgentPollerConfig
    from afl.runtime.entities import BlockDefinition as BlockDefinition
    from afl.runtime.entities import Classifier as Classifier
    from afl.runtime.entities import FacetDefinition as FacetDefinition
    from afl.runtime.entities import FileArtifact as FileArtifact
    from afl.runtime.entities import FlowDefinition as FlowDefinition
    from afl.runtime.entities import FlowIdentity as FlowIdentity
    from afl.runtime.entities import HandledCount as HandledCount
    from afl.runtime.entities import InlineSource as InlineSource
    from afl.runtime.entities import JarArtifact as JarArtifact
    from afl.runtime.entities import LockDefinition as LockDefinition
    from afl.runtime.entities import LockMetaData as LockMetaData
    from afl.runtime.entities import LogDefinition as LogDefinition
    from afl.runtime.entities import MixinDefinition as MixinDefinition
    from afl.runtime.entities import NamespaceDefinition as NamespaceDefinition
    from afl.runtime.entities import NoteImportance as NoteImportance
    from afl.runtime.entities import NoteOriginator as NoteOriginator
    from afl.runtime.entities import NoteType as NoteType
    from afl.runtime.entities import Ownership as Ownership
    from afl.runtime.entities import Parameter as Parameter
    from afl.runtime.entities import ResourceSource as ResourceSource
    from afl.runtime.entities import RunDefinition as RunDefinition
    from afl.runtime.entities import RunnerDefinition as RunnerDefinition
    from afl.runtime.entities import RunnerState as RunnerState
    from afl.runtime.entities import ScriptCode as ScriptCode
    from afl.runtime.entities import ServerDefinition as ServerDefinition
    from afl.runtime.entities import ServerState as ServerState
    from afl.runtime.entities import SourceText as SourceText
    from afl.runtime.entities import StatementArguments as StatementArguments
    from afl.runtime.entities import StatementDefinition as _EntityStatementDefinition
    from afl.runtime.entities import StatementReferences as StatementReferences
    from afl.runtime.entities import TaskDefinition as TaskDefinition
    from afl.runtime.entities import TaskState as TaskState
    from afl.runtime.entities import TextSource as TextSource
    from afl.runtime.entities import UserDefinition as UserDefinition
    from afl.runtime.entities import WorkflowDefinition as WorkflowDefinition
    from afl.runtime.entities import WorkflowMetaData as WorkflowMetaData
    from afl.runtime.errors import BlockNotFoundError as BlockNotFoundError
    from afl.runtime.errors import ConcurrencyError as ConcurrencyError
    from afl.runtime.errors import DependencyNotSatisfiedError as DependencyNotSatisfiedError
    from afl.runtime.errors import EvaluationError as EvaluationError
    from afl.runtime.errors import EventError as EventError
    from afl.runtime.errors import InvalidStepStateError as InvalidStepStateError
    from afl.runtime.errors import InvalidTransitionError as InvalidTransitionError
    from afl.runtime.errors import ReferenceError as ReferenceError
    from afl.runtime.errors import ResultError as ResultError
    from afl.runtime.errors import RuntimeError as RuntimeError
    from afl.runtime.errors import StepFailure as StepFailure
    from afl.runtime.errors import StepNotFoundError as StepNotFoundError
    from afl.runtime.errors import VersionMismatchError as VersionMismatchError
    from afl.runtime.evaluator import Evaluator as Evaluator
    from afl.runtime.evaluator import ExecutionContext as ExecutionContext
    from afl.runtime.evaluator import ExecutionResult as ExecutionResult
    from afl.runtime.evaluator import ExecutionStatus as ExecutionStatus
    from afl.runtime.events import EventDispatcher as EventDispatcher
    from afl.runtime.events import EventManager as EventManager
    from afl.runtime.events import LocalEventHandler as LocalEventHandler
    from afl.runtime.memory_store import MemoryStore as MemoryStore
    from afl.runtime.persistence import EventDefinition as EventDefinition
    from afl.runtime.persistence import IterationChanges as IterationChanges
    from afl.runtime.persistence import PersistenceAPI as PersistenceAPI
    from afl.runtime.program.block import BlockAnalysis as BlockAnalysis
    from afl.runtime.program.block import StatementDefinition as StatementDefinition
    from afl.runtime.program.block import StepAnalysis as StepAnalysis
    from afl.runtime.program.dependency import DependencyGraph as DependencyGraph
    from afl.runtime.program.expression import EvaluationContext as EvaluationContext
    from afl.runtime.program.expression import ExpressionEvaluator as ExpressionEvaluator
    from afl.runtime.program.expression import evaluate_args as evaluate_args
    from afl.runtime.runner.config import RunnerConfig as RunnerConfig
    from afl.runtime.runner.service import RunnerService as RunnerService
    from afl.runtime.runner.system_tasks import RESUME_TASK_NAME as RESUME_TASK_NAME
    from afl.runtime.states import BLOCK_TRANSITIONS as BLOCK_TRANSITIONS
    from afl.runtime.states import EVENT_TRANSITIONS as EVENT_TRANSITIONS
    from afl.runtime.states import STEP_TRANSITIONS as STEP_TRANSITIONS
    from afl.runtime.states import YIELD_TRANSITIONS as YIELD_TRANSITIONS
    from afl.runtime.states import EventState as EventState
    from afl.runtime.states import StepState as StepState
    from afl.runtime.states import get_next_state as get_next_state
    from afl.runtime.states import select_transitions as select_transitions
    from afl.runtime.step import StepDefinition as StepDefinition
    from afl.runtime.step import StepTransition as StepTransition
    from afl.runtime.store import open_store as open_store
    from afl.runtime.task_handlers.tool_definition import ToolDefinition as ToolDefinition
    from afl.runtime.task_handlers.tool_registry import ToolRegistry as ToolRegistry
    from afl.runtime.telemetry import Telemetry as Telemetry
    from afl.runtime.telemetry import TelemetryEvent as TelemetryEvent
    from afl.runtime.types import AttributeValue as AttributeValue
    from afl.runtime.types import BlockId as BlockId
    from afl.runtime.types import EventId as EventId
    from afl.runtime.types import FacetAttributes as FacetAttributes
    from afl.runtime.types import ObjectType as ObjectType
    from afl.runtime.types import StatementId as StatementId
    from afl.runtime.types import StepId as StepId
    from afl.runtime.types import VersionInfo as VersionInfo
    from afl.runtime.types import WorkflowId as WorkflowId
    from afl.runtime.types import block_id as block_id
    from afl.runtime.types import event_id as event_id
    from afl.runtime.types import generate_id as generate_id
    from afl.runtime.types import step_id as step_id
    from afl.runtime.types import workflow_id as workflow_id

    EntityStatementDefinition = _EntityStatementDefinition

if not TYPE_CHECKING:  # a type checker takes the imports above, and reports what is not there
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "agent": "ClaudeAgentRunner",
            "agent_poller": "AgentPoller AgentPollerConfig",
            "entities": (
                "BlockDefinition Classifier FacetDefinition FileArtifact FlowDefinition FlowIdentity "
                "HandledCount InlineSource JarArtifact LockDefinition LockMetaData LogDefinition "
                "MixinDefinition NamespaceDefinition NoteImportance NoteOriginator NoteType Ownership "
                "Parameter ResourceSource RunDefinition RunnerDefinition RunnerState ScriptCode "
                "ServerDefinition ServerState SourceText StatementArguments StatementReferences "
                "TaskDefinition TaskState TextSource UserDefinition WorkflowDefinition WorkflowMetaData "
                "EntityStatementDefinition:StatementDefinition"
            ),
            "errors": (
                "BlockNotFoundError ConcurrencyError DependencyNotSatisfiedError EvaluationError "
                "EventError InvalidStepStateError InvalidTransitionError ReferenceError ResultError "
                "RuntimeError StepFailure StepNotFoundError VersionMismatchError"
            ),
            "evaluator": "Evaluator ExecutionContext ExecutionResult ExecutionStatus",
            "events": "EventDispatcher EventManager LocalEventHandler",
            "memory_store": "MemoryStore",
            "persistence": "EventDefinition IterationChanges PersistenceAPI",
            "program.block": "BlockAnalysis StatementDefinition StepAnalysis",
            "program.dependency": "DependencyGraph",
            "program.expression": "EvaluationContext ExpressionEvaluator evaluate_args",
            "runner.config": "RunnerConfig",
            "runner.service": "RunnerService",
            "runner.system_tasks": "RESUME_TASK_NAME",
            "states": (
                "BLOCK_TRANSITIONS EVENT_TRANSITIONS STEP_TRANSITIONS YIELD_TRANSITIONS EventState "
                "StepState get_next_state select_transitions"
            ),
            "step": "StepDefinition StepTransition",
            "store": "open_store",
            "task_handlers.tool_definition": "ToolDefinition",
            "task_handlers.tool_registry": "ToolRegistry",
            "telemetry": "Telemetry TelemetryEvent",
            "types": (
                "AttributeValue BlockId EventId FacetAttributes ObjectType StatementId StepId VersionInfo "
                "WorkflowId block_id event_id generate_id step_id workflow_id"
            ),
        },
    )
