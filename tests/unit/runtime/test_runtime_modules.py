"""Where the public names are: the modules the seeds name, and the package that offers them all."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import afl.runtime

PLACES = {
    "afl.runtime.entities": ["TaskDefinition", "TaskState", "ServerDefinition", "ServerState"],
    "afl.runtime.persistence": ["PersistenceAPI", "EventDefinition", "IterationChanges"],
    "afl.runtime.evaluator": ["Evaluator", "ExecutionContext", "ExecutionResult", "ExecutionStatus"],
    "afl.runtime.events": ["EventManager", "EventDispatcher", "LocalEventHandler"],
    "afl.runtime.states": ["EventState", "EVENT_TRANSITIONS", "StepState"],
    "afl.runtime.memory_store": ["MemoryStore"],
    "afl.runtime.mongo_store": ["MongoStore"],
    "afl.runtime.handlers": ["get_handler", "STATE_HANDLERS"],
    "afl.runtime.handlers.base": ["StateHandler"],
    "afl.runtime.handlers.completion": ["EventTransmitHandler", "StatementCompleteHandler"],
    "afl.runtime.handlers.initialization": ["EventTransmitHandler", "FacetInitializationBeginHandler"],
    "afl.runtime.agent": ["ClaudeAgentRunner", "ToolDefinition", "ToolRegistry"],
    "afl.runtime.agent_poller": ["AgentPoller", "AgentPollerConfig"],
    "afl.runtime.runner": ["RunnerService", "RunnerConfig", "RESUME_TASK_NAME"],
    "afl.runtime.runner.service": ["RunnerService", "RunnerConfig", "RESUME_TASK_NAME"],
    "afl.runtime.evaluation.changers": ["StateChanger", "StateChangeResult", "get_state_changer"],
}


def test_names_are_where_the_seeds_put_them() -> None:
    named = [(module, name) for module, names in PLACES.items() for name in names]
    assert [(module, name) for module, name in named if not hasattr(import_module(module), name)] == []


def test_the_package_offers_every_public_name() -> None:
    assert [name for name in afl.runtime.__all__ if getattr(afl.runtime, name, None) is None] == []
    assert set(afl.runtime.__all__) <= set(dir(afl.runtime))


def test_the_package_offers_all_of_its_parts() -> None:
    wanted = {
        *(
            "StepId",
            "ObjectType",
            "FacetAttributes",
            "StepState",
            "EventState",
            "StepDefinition",
            "StepTransition",
        ),
        *("TaskDefinition", "ServerDefinition", "FlowDefinition", "RunnerDefinition", "LockMetaData"),
        *("RuntimeError", "ReferenceError", "EvaluationError", "EventManager", "EventDispatcher"),
        *("ExpressionEvaluator", "EvaluationContext", "evaluate_args", "DependencyGraph", "StepAnalysis"),
        *("BlockAnalysis", "Telemetry", "TelemetryEvent", "EventDefinition", "IterationChanges"),
        *(
            "PersistenceAPI",
            "MemoryStore",
            "Evaluator",
            "ExecutionContext",
            "ExecutionResult",
            "ExecutionStatus",
        ),
        *("AgentPoller", "AgentPollerConfig", "RunnerService", "RunnerConfig", "RESUME_TASK_NAME"),
        *("ToolRegistry", "ToolDefinition", "ClaudeAgentRunner", "open_store"),
    }
    assert wanted <= set(afl.runtime.__all__)
    assert len(afl.runtime.__all__) == len(set(afl.runtime.__all__))


def test_what_is_loaded_on_demand_is_what_its_module_has() -> None:
    found = {module: import_module(module) for module in PLACES}
    offered = set(afl.runtime.__all__)
    for module, names in PLACES.items():
        for name in offered.intersection(names):
            assert getattr(afl.runtime, name) is getattr(found[module], name), f"{module}.{name}"


def test_two_kinds_of_statements_have_two_names() -> None:
    assert afl.runtime.StatementDefinition.__module__ == "afl.runtime.program.block"
    assert afl.runtime.EntityStatementDefinition.__module__ == "afl.runtime.entities.flows"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Evaluatr"):
        _ = afl.runtime.Evaluatr  # type: ignore[attr-defined]


def test_a_small_module_does_not_load_the_evaluator() -> None:
    code = "import sys, afl.runtime.states; print('afl.runtime.evaluator' in sys.modules, 'sqlite3' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]
