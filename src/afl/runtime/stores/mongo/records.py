"""Entities to documents and back."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from afl.kernel import codec
from afl.runtime.entities import RunDefinition, TaskDefinition, labels
from afl.runtime.errors import StepFailure
from afl.runtime.persistence.changes import EventDefinition
from afl.runtime.states import StepState
from afl.runtime.step import BlockProgress, StepDefinition, StepTransition
from afl.runtime.types import AttributeValue, FacetAttributes, VersionInfo

Document = dict[str, Any]

NATIVE_BYTES = 512 * 1024
_DEEPEST = 40
_INT64 = 1 << 63
_UNFIT = re.compile(r"[.\x00]|^\$|^$")
_ESCAPED = re.compile(r"[%.$\x00]")


def fits(value: Any, depth: int = 0) -> bool:
    """Whether BSON holds a value (made of plain JSON data) exactly."""
    if isinstance(value, dict):
        return depth < _DEEPEST and all(
            not _UNFIT.search(key) and fits(each, depth + 1) for key, each in value.items()
        )
    if isinstance(value, list):
        return depth < _DEEPEST and all(fits(each, depth + 1) for each in value)
    return not isinstance(value, int) or -_INT64 <= value < _INT64


def map_value(value: Document | None, what: str) -> Document | str | None:
    """A map as a subdocument, or as JSON text; PayloadError if it is not plain data or too large."""
    if value is None:
        return None
    text = codec.encode(value, what=what)
    plain: Document = codec.decode(text)
    return plain if len(text) <= NATIVE_BYTES and fits(plain) else text


def map_from(stored: Document | str | None) -> Document:
    """The map of a field; an absent one is empty. ValueError if there is something else."""
    if isinstance(stored, str):
        return codec.decode_map(stored)
    if not isinstance(stored, dict | None):
        raise ValueError(f"expected a map, found {type(stored).__name__}")
    return stored or {}


def optional_map_from(stored: Document | str | None) -> Document | None:
    """The map of a field that may be null."""
    return None if stored is None else map_from(stored)


def attribute_documents(attributes: dict[str, AttributeValue], what: str) -> Document:
    """Attributes by name: {n: {name, value, type_hint}}."""
    if not attributes:
        return {}
    text = codec.encode({name: attribute.value for name, attribute in attributes.items()}, what=what)
    native = len(text) <= NATIVE_BYTES
    values: Document = codec.decode(text)
    return {
        _key(name): _attribute(name, values[name], attribute.type_hint, native)
        for name, attribute in attributes.items()
    }


def attributes_from(stored: Document | None) -> dict[str, AttributeValue]:
    """The attributes of a step's document, whoever wrote it."""
    attributes = (_attribute_from(key, document) for key, document in (stored or {}).items())
    return {attribute.name: attribute for attribute in attributes}


def _attribute(name: str, value: Any, type_hint: str, native: bool) -> Document:
    if native and fits(value):
        return {"name": name, "value": value, "type_hint": type_hint}
    text = codec.encode(value)
    return {"name": name, "value": text, "type_hint": type_hint, "encoding": "json"}


def _attribute_from(key: str, document: Document) -> AttributeValue:
    value: Any = document.get("value")
    if document.get("encoding") == "json":
        value = codec.decode(value)
    return AttributeValue(document.get("name", unquote(key)), value, document.get("type_hint") or "Any")


def _key(name: str) -> str:
    """A name as a field name: nearly always itself; what a path could not reach is percent-escaped."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name) or "%"


T = TypeVar("T")

_TASK_MAPS = ("data", "error", "result", "retry", "bridge")
_TASK_FIELDS = [field.name for field in fields(TaskDefinition) if field.name not in (*_TASK_MAPS, "attempt")]
_RUN_MAPS = ("inputs", "outputs", "error")
_RUN_FIELDS = [
    field.name for field in fields(RunDefinition) if field.name not in (*_RUN_MAPS, "lease_until", "tags")
]


# -- steps ----------------------------------------------------------------------------------------------------


def step_changes(step: StepDefinition) -> Document:
    """The fields of a step that change in its life."""
    error = step.transition.error
    return {
        "state": step.state,
        "attributes": {
            "params": attribute_documents(step.attributes.params, f"the parameters of step {step.id}"),
            "returns": attribute_documents(step.attributes.returns, f"the returns of step {step.id}"),
        },
        **failure_fields(error),
        "progress": None if step.progress is None else asdict(step.progress),
        "request": step.transition.request_transition,
        "version": asdict(step.version),
        "timestamp": step.timestamp,
        "ended": step.ended,
    }


def step_document(step: StepDefinition) -> Document:
    """All fields of a step."""
    return {
        "uuid": step.id,
        "workflow_id": step.workflow_id,
        "object_type": step.object_type,
        "statement_id": step.statement_id,
        "container_type": step.container_type,
        "container_id": step.container_id,
        "root_id": step.root_id,
        "block_id": step.block_id,
        "facet_name": step.facet_name or None,
        "is_block": step.is_block,
        "is_starting_step": step.root_id is None and step.container_id is None,
        "started": step.started,
        **step_changes(step),
    }


def failure_fields(error: Exception | None) -> Document:
    """An error twice: its text, as agents of other languages know it, and all of it."""
    if error is None:
        return {"error": None, "failure": None}
    failure = error if isinstance(error, StepFailure) else StepFailure(str(error), type(error).__name__)
    return {"error": failure.message, "failure": map_value(failure.to_dict(), "an error")}


def step_from(document: Document) -> StepDefinition:
    """The step of a document; what an agent of another language left out is its default.

    One that cannot be read says so, and has no values.
    """
    try:
        return _step_from(document)
    except Exception as error:  # whatever somebody has written there
        known = {"object_type": "", "workflow_id": "", "state": "", **document}
        step = _step_from({name: value for name, value in known.items() if name not in _STEP_VALUES})
        step.unreadable = f"step {step.id} cannot be read: {error}"
        return step


_STEP_VALUES = ("attributes", "failure", "error", "progress", "request", "version")


def _step_from(document: Document) -> StepDefinition:
    state, progress = document["state"], document.get("progress")
    attributes = document.get("attributes") or {}
    return StepDefinition(
        id=document["uuid"],
        object_type=document["object_type"],
        workflow_id=document["workflow_id"],
        statement_id=document.get("statement_id"),
        container_type=document.get("container_type"),
        container_id=document.get("container_id"),
        block_id=document.get("block_id"),
        root_id=document.get("root_id"),
        state=state,
        transition=StepTransition(
            state,
            state,
            request_transition=bool(document.get("request")) and not StepState.is_terminal(state),
            error=_failure_from(document),
        ),
        facet_name=document.get("facet_name") or "",
        attributes=FacetAttributes(
            attributes_from(attributes.get("params")), attributes_from(attributes.get("returns"))
        ),
        version=VersionInfo(**(document.get("version") or {})),
        timestamp=document.get("timestamp"),
        progress=None if progress is None else BlockProgress(**progress),
        started=document.get("started", 0),
        ended=document.get("ended", 0),
    )


def _failure_from(document: Document) -> StepFailure | None:
    failure = optional_map_from(document.get("failure"))
    if failure is not None:
        return StepFailure.from_dict(failure)
    return StepFailure(document["error"]) if document.get("error") else None


# -- events, tasks, runs --------------------------------------------------------------------------------------


def event_document(event: EventDefinition) -> Document:
    """All fields of an event."""
    return {
        "uuid": event.id,
        "step_id": event.step_id,
        "workflow_id": event.workflow_id,
        "state": event.state,
        "event_type": event.event_type,
        "payload": map_value(event.payload, f"the payload of event {event.id}"),
    }


def event_from(document: Document) -> EventDefinition:
    """The event of a document; one that cannot be read says so, and has no payload."""
    event = EventDefinition(
        document["uuid"],
        document["step_id"],
        document["workflow_id"],
        document["state"],
        document["event_type"],
    )
    try:
        event.payload = map_from(document.get("payload"))
    except ValueError as error:
        event.unreadable = f"event {event.id} cannot be read: {error}"
    return event


def task_document(task: TaskDefinition) -> Document:
    """All fields of a task."""
    return {
        **{name: getattr(task, name) for name in _TASK_FIELDS},
        "short_name": task.name.rpartition(".")[2],
        **{name: map_value(getattr(task, name), f"the {name} of task {task.uuid}") for name in _TASK_MAPS},
    }


def task_from(document: Document) -> TaskDefinition:
    """The task of a document; what an agent of another language left out is its default.

    One that cannot be read says so, and lacks what cannot.
    """
    task = TaskDefinition(**{name: document[name] for name in _TASK_FIELDS if name in document})
    for name in _TASK_MAPS:
        try:
            setattr(task, name, optional_map_from(document.get(name)))
        except ValueError as error:
            task.unreadable = f"{name} of task {task.uuid} cannot be read: {error}"
    return task


def run_document(run: RunDefinition) -> Document:
    """All fields of a run but its lease, which the server's clock decides."""
    return {
        **{name: getattr(run, name) for name in _RUN_FIELDS},
        "uuid": run.workflow_id,
        "tags": labels(run.tags),
        "unindexed": True,  # for search: see run_lists
        **{name: map_value(getattr(run, name), f"the {name} of run {run.workflow_id}") for name in _RUN_MAPS},
    }


def run_from(document: Document) -> RunDefinition:
    """The run of a document; what was not read of it, or was not known when it was written, is its default.

    One that cannot be read says so, and lacks what cannot.
    """
    run = RunDefinition(
        **{name: document[name] for name in (*_RUN_FIELDS, "lease_until") if name in document}
    )
    run.tags = dict(label.split("=", 1) for label in document.get("tags", ()))
    try:
        run.inputs, run.outputs = map_from(document.get("inputs")), map_from(document.get("outputs"))
        run.error = optional_map_from(document.get("error"))
    except ValueError as error:
        run.unreadable = f"run {run.workflow_id} cannot be read: {error}"
    return run


# -- other entities -------------------------------------------------------------------------------------------


def record_document(entity: Any, what: str, columns: tuple[str, ...]) -> Document:
    """An entity by field name; one that BSON cannot hold has `columns` as fields and the whole as JSON text."""
    text = codec.encode(entity, what=what)
    plain: Document = codec.decode(text)
    if len(text) <= NATIVE_BYTES and fits(plain):
        return {**plain, "record": None}
    return {**{name: plain[name] for name in columns}, "record": text}


def record_from(document: Document, kind: type[T]) -> T:
    """The entity of a document; its fields count over the text, since some are written alone."""
    whole = codec.decode(document["record"]) if document.get("record") else {}
    return msgspec.convert({**whole, **document}, kind)
