"""The plain records: fields, defaults, state names."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, fields, is_dataclass
from typing import Any

import pytest

from afl.runtime import entities
from afl.runtime.entities import (
    FlowDefinition,
    FlowIdentity,
    HandledCount,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    NoteImportance,
    NoteOriginator,
    NoteType,
    RunnerDefinition,
    RunnerState,
    ServerDefinition,
    ServerState,
    TaskDefinition,
    TaskState,
    WorkflowDefinition,
)

WORKFLOW = WorkflowDefinition("w", "W", "ns", "f", "flow", "step", "1.0")
RECORDS = [
    kind
    for kind in vars(entities).values()
    if isinstance(kind, type) and is_dataclass(kind) and kind is not entities.AttemptDefinition
]


def defaults(kind: Any) -> dict[str, Any]:
    """Each field's default; MISSING for a required one."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
    }


def test_task_definition_fields() -> None:
    task = TaskDefinition("u", "ns.CountDocs", "runner", "run", "flow", "step")
    assert [field.name for field in fields(task)][:13] == [
        *("uuid", "name", "runner_id", "workflow_id", "flow_id", "step_id", "state", "created", "updated"),
        *("error", "task_list_name", "data_type", "data"),
    ]
    assert (task.state, task.created, task.updated, task.error) == ("pending", 0, 0, None)
    assert (task.task_list_name, task.data_type, task.data) == ("default", "", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PENDING", "pending"),
        ("RUNNING", "running"),
        ("COMPLETED", "completed"),
        ("FAILED", "failed"),
        ("IGNORED", "ignored"),
        ("CANCELED", "canceled"),
    ],
)
def test_task_states(name: str, value: str) -> None:
    assert getattr(TaskState, name) == value


def test_server_definition_fields() -> None:
    server = ServerDefinition("u", "group", "service", "host")
    assert [field.name for field in fields(server)][:13] == [
        *("uuid", "server_group", "service_name", "server_name", "server_ips", "start_time", "ping_time"),
        *("topics", "handlers", "handled", "state", "manager", "error"),
    ]
    assert (server.server_ips, server.topics, server.handlers, server.handled) == ([], [], [], [])
    assert (server.start_time, server.ping_time, server.state) == (0, 0, "startup")
    assert (server.manager, server.error) == ("", None)
    assert ServerDefinition("v", "g", "s", "h").handlers is not server.handlers


@pytest.mark.parametrize(
    ("name", "value"),
    [("STARTUP", "startup"), ("RUNNING", "running"), ("SHUTDOWN", "shutdown"), ("ERROR", "error")],
)
def test_server_states(name: str, value: str) -> None:
    assert getattr(ServerState, name) == value


def test_runner_states_and_the_spelling_trap() -> None:
    assert RunnerState.CREATED == "created"
    assert RunnerState.RUNNING == "running"
    assert RunnerState.COMPLETED == "completed"
    assert RunnerState.FAILED == "failed"
    assert RunnerState.PAUSED == "paused"
    assert RunnerState.UNKNOWN == "unknown"
    assert (RunnerState.CANCELED, TaskState.CANCELED) == ("canceled", "canceled")


def test_runner_definition() -> None:
    runner = RunnerDefinition("u", "run", WORKFLOW)
    assert (runner.parameters, runner.step_id, runner.user) == ([], None, None)
    assert (runner.start_time, runner.end_time, runner.duration, runner.retain) == (0, 0, 0, 0)
    assert runner.state == "created"


def test_log_definition() -> None:
    log = LogDefinition("u", 1, "runner")
    assert (log.step_id, log.object_id, log.object_type) == (None, "", "")
    assert (log.note_originator, log.note_type, log.note_importance) == ("workflow", "info", 5)
    assert (log.message, log.state, log.line, log.file, log.details, log.time) == ("", "", 0, "", {}, 0)


def test_note_constants() -> None:
    assert (NoteType.ERROR, NoteType.INFO, NoteType.WARNING) == ("error", "info", "warning")
    assert (NoteOriginator.WORKFLOW, NoteOriginator.AGENT) == ("workflow", "agent")
    assert (NoteImportance.HIGH, NoteImportance.NORMAL, NoteImportance.LOW) == (1, 5, 10)


def test_locks_and_counts() -> None:
    assert asdict(LockMetaData()) == {"topic": None, "handler": None, "step_name": None, "step_id": None}
    lock = LockDefinition("k")
    assert (lock.acquired_at, lock.expires_at, lock.meta) == (0, 0, None)
    assert HandledCount("ns.F") == HandledCount("ns.F", 0, 0)


def test_workflow_definition() -> None:
    assert (WORKFLOW.metadata, WORKFLOW.documentation, WORKFLOW.date) == (None, None, 0)


def test_flow_definition() -> None:
    empty = defaults(FlowDefinition)
    lists = [name for name, value in empty.items() if value == []]
    assert lists == [
        *("namespaces", "facets", "workflows", "mixins", "blocks", "statements", "arguments", "references"),
        *("script_code", "file_artifacts", "jar_artifacts", "resources", "text_sources", "compiled_sources"),
    ]
    assert [name for name, value in empty.items() if value is None] == [
        *("inline", "classification", "publisher", "ownership"),
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Parameter", ["name", "value", "type_hint=Any"]),
        ("UserDefinition", ["email", "name=", "avatar="]),
        ("Ownership", ["owner=None", "group="]),
        ("Classifier", ["category=", "tags=[]"]),
        ("SourceText", ["name", "content", "language=afl"]),
        ("InlineSource", ["content", "language=afl"]),
        ("FileArtifact", ["path", "checksum="]),
        ("JarArtifact", ["group_id", "artifact_id", "version"]),
        ("ResourceSource", ["name", "path"]),
        ("TextSource", ["name", "content"]),
        ("ScriptCode", ["name", "code", "language=python"]),
        ("WorkflowMetaData", ["description=", "author=", "tags=[]"]),
        ("NamespaceDefinition", ["uuid", "name", "path="]),
        ("FacetDefinition", ["uuid", "name", "namespace_id", "parameters=[]", "return_type=None"]),
        ("MixinDefinition", ["uuid", "name", "namespace_id", "parameters=[]"]),
        ("BlockDefinition", ["uuid", "name", "block_type", "statements=[]"]),
        ("StatementDefinition", ["uuid", "name", "statement_type", "block_id=None", "expression=None"]),
        ("StatementArguments", ["statement_id", "arguments=[]"]),
        ("StatementReferences", ["statement_id", "references=[]"]),
        ("FlowIdentity", ["name", "path", "uuid"]),
    ],
)
def test_supporting_records(kind: str, expected: list[str]) -> None:
    found = defaults(getattr(entities, kind))
    assert [name if value is MISSING else f"{name}={value}" for name, value in found.items()] == expected


def filled(kind: Any) -> Any:
    """An instance with text in every required field, whatever its type says."""
    given: dict[str, Any] = {name: "x" for name, value in defaults(kind).items() if value is MISSING}
    if kind is FlowDefinition:
        given["name"] = FlowIdentity("f", "/f", "u")
    if kind is RunnerDefinition:
        given["workflow"] = WORKFLOW
    return kind(**given)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_record_is_mutable_plain_data(kind: Any) -> None:
    record = filled(kind)
    data = asdict(record)
    assert json.loads(json.dumps(data)) == data
    name = fields(kind)[0].name
    setattr(record, name, "changed")
    assert getattr(record, name) == "changed"
