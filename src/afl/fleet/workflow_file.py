"""A workflow file: parses YAML text into a Workflow, or reports every problem."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import islice
from typing import Any

from afl.fleet.errors import Problem, WorkflowFileError, suggestion
from afl.fleet.task_section import read_task, whole
from afl.fleet.workflow import DEFAULT_REQUEUES, Overlap, Parameter, ParameterKind, Task, Workflow, checked
from afl.fleet.yaml_section import Section, is_scalar, read_document
from afl.kernel.bounds import LONGEST_NAME, is_name
from afl.kernel.cron import Cron
from afl.kernel.dag import cycles
from afl.kernel.errors import InputError, ScheduleError
from afl.kernel.schedule import CatchUp

_KEYS = (
    "name",
    "description",
    "cron",
    "start_time",
    "tasks",
    "max_parallel",
    "params",
    "overlap",
    "catch_up",
    "on_crash",
)
_MOST_CYCLES = 20  # reported per file
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DAY_7 = re.compile(r"(?<![0-9/])7(?![0-9])")


def read_workflow(workflow_id: str, path: str, text: str) -> Workflow:
    """The workflow of a file's text; WorkflowFileError has every problem with its line and key."""
    document = read_document(path, text)
    try:
        workflow = _workflow(document, workflow_id, path)
    except RecursionError as error:
        raise WorkflowFileError([Problem(path, 0, "", "has an alias that leads into itself")]) from error
    if document.report.problems:
        raise document.report.stop()
    return workflow


def _workflow(document: Section, workflow_id: str, path: str) -> Workflow:
    document.allow(_KEYS, "a workflow")
    params = _params(document)
    cron = _cron(document)
    if cron is not None:
        _check_schedulable(document, params)
    return Workflow(
        id=workflow_id,
        name=document.label("name"),
        tasks=_tasks(document, params),
        description=document.value("description", str),
        path=path,
        cron=cron,
        start_time=_start_time(document),
        max_parallel=whole(document, "max_parallel", 1),
        params=params,
        overlap=Overlap(_choice(document, "overlap", [item.value for item in Overlap]) or Overlap.ALLOW),
        catch_up=_catch_up(document),
        requeues=_requeues(document),
    )


def _tasks(document: Section, params: dict[str, Parameter]) -> dict[str, Task]:
    section = document.section("tasks", "a mapping of task ids to tasks", required=True)
    if section is None:
        return {}
    if not list(section):
        document.problem("tasks", "is empty; expected at least one task")
    tasks: dict[str, Task] = {}
    sections: dict[str, Section] = {}
    for task_id in section:
        inner = section.section(task_id, "a mapping with name and config", required=True)
        if not is_name(task_id):
            section.problem(
                task_id,
                f"is not a task id: expected text without control characters, at most {LONGEST_NAME} of them",
            )
        if inner is not None:
            tasks[task_id], sections[task_id] = read_task(inner, params), inner
    _check_dependencies(section, tasks)
    depends = {task_id: [name for name in task.depends if name in tasks] for task_id, task in tasks.items()}
    for path in islice(cycles(depends), _MOST_CYCLES):
        sections[path[0]].problem("depends", f"forms a cycle: {' -> '.join(path)}")
    return tasks


def _check_dependencies(section: Section, tasks: dict[str, Task]) -> None:
    known = list(section)
    for task_id, task in tasks.items():
        for name in task.depends:
            if name not in known:
                others = [other for other in known if other != task_id]
                section.problem(
                    task_id,
                    f"depends on {name!r}, which is not a task of this file{suggestion(name, others)}",
                )


def _params(document: Section) -> dict[str, Parameter]:
    section = document.section("params", "a mapping of names to types")
    found: dict[str, Parameter] = {}
    for name in section or ():
        assert section is not None
        if not _PARAMETER.fullmatch(name):
            section.problem(
                name, "is not a parameter name: expected letters, digits and _, not a digit first"
            )
        found[name] = _parameter(section, name)
    return found


def _parameter(section: Section, name: str) -> Parameter:
    """`limit: integer`, or a mapping with type, default, description, choices."""
    kinds = [kind.value for kind in ParameterKind]
    if is_scalar(section.node_of(name)):
        return Parameter(ParameterKind(_choice(section, name, kinds) or "string"))
    inner = section.section(name, "a type, or a mapping with type, default, description, choices")
    if inner is None:
        return Parameter()
    inner.allow(("type", "default", "description", "choices"), "a parameter")
    kind = ParameterKind(_choice(inner, "type", kinds) or "string")
    bare = Parameter(kind, description=inner.value("description", str))
    choices = tuple(_checked(inner, "choices", bare, value) for value in inner.scalars("choices", *_SCALARS))
    default = inner.value("default", *_SCALARS)
    parameter = Parameter(kind, None, bare.description, tuple(item for item in choices if item is not None))
    if default is not None:
        default = _checked(inner, "default", parameter, default)
    return Parameter(kind, default, parameter.description, parameter.choices)


_SCALARS = (str, int, float, bool)


def _checked(section: Section, name: str, parameter: Parameter, value: Any) -> Any:
    strings = parameter.kind is ParameterKind.STRING
    try:
        if isinstance(value, str) is not strings:  # a file has types; only a command line has not
            raise InputError(f"is {value!r}; expected a value of the type {parameter.kind}")
        return checked(parameter, value)
    except InputError as error:
        section.problem(name, str(error))
        return None


def _cron(document: Section) -> str | None:
    text: str | None = document.value("cron", str)
    if text is None:
        return None
    words = text.split()
    if len(words) not in (6, 7) and not text.startswith("@"):
        example = f": {'0 ' + text!r}" if len(words) == 5 else ", or 7 with a year"
        document.problem("cron", f"is {text!r}; expected 6 fields, seconds first{example}")
        return None
    try:
        Cron.parse(text)
    except ScheduleError as error:
        document.problem("cron", str(error))
        return None
    if len(words) > 5 and _DAY_7.search(words[5]):
        document.problem("cron", f"is {text!r}; weekdays are 0-6 with Sunday 0, or names such as sat")
    return text


def _check_schedulable(document: Section, params: dict[str, Parameter]) -> None:
    """A scheduled run has no caller who gives values."""
    for name, parameter in params.items():
        if parameter.default is None:
            document.problem("cron", f"starts runs without parameters; give {name!r} a default")


def _start_time(document: Section) -> str | None:
    text = document.value("start_time", str)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("no offset")
    except ValueError:
        document.problem("start_time", f"is {text!r}; expected RFC 3339, such as 2025-01-20T02:00:00+00:00")
        return None
    return moment.isoformat()


def _catch_up(document: Section) -> CatchUp:
    """`none`, `latest` or `all`; true is `latest`."""
    value = document.value("catch_up", bool, str)
    words = [item.value for item in CatchUp]
    if isinstance(value, str) and value not in words:
        document.problem("catch_up", f"is {value!r}; expected {', '.join(words)}, true or false")
        return CatchUp.NONE
    return CatchUp(value) if isinstance(value, str) else CatchUp.LATEST if value else CatchUp.NONE


def _requeues(document: Section) -> int:
    """`crashed` (0), `requeue`, or `requeue: n`."""
    if is_scalar(document.node_of("on_crash")):
        word = _choice(document, "on_crash", ["crashed", "requeue"])
        return DEFAULT_REQUEUES if word == "requeue" else 0
    inner = document.section("on_crash", "crashed, requeue, or requeue with a count")
    if inner is None:
        return 0
    inner.allow(("requeue",), "on_crash")
    return whole(inner, "requeue", 0) or 0


def _choice(section: Section, name: str, words: list[str]) -> str | None:
    value: str | None = section.value(name, str)
    if value is not None and value not in words:
        section.problem(name, f"is {value!r}; expected {', '.join(words)}{_near(value, words)}")
        return None
    return value


def _near(value: str, words: list[str]) -> str:
    near = suggestion(value, words)
    return near if "did you mean" in near else ""
