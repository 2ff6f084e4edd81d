"""A workflow of the fleet: a DAG of tasks, each of which starts one process, and the parameters of a run.

`{{ params.name }}` in an argument or in the value of a variable becomes the value, in one pass: what a value contains
is not expanded again. An argument stays one argument whatever the value is, and no shell sees it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from afl.fleet.errors import suggestion
from afl.kernel.backoff import Backoff
from afl.kernel.dag import Dag
from afl.kernel.errors import InputError
from afl.kernel.schedule import CatchUp

DEFAULT_REQUEUES = 3  # restarts of a run with `on_crash: requeue`


@dataclass(frozen=True, slots=True)
class Subprocess:
    """A program and its arguments, started without a shell."""

    cmd: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UvPython:
    """A Python script that `uv run` starts, with the packages it needs."""

    script_path: str
    is_uv_project: bool | None = None
    packages: tuple[str, ...] | None = None
    uv_path: str | None = None
    working_directory: str | None = None


@dataclass(frozen=True, slots=True)
class Ray:
    """A program, or a Python function `module:name`, that runs on a Ray cluster."""

    cmd: str | None = None
    function: str | None = None
    args: tuple[str, ...] = ()
    address: str | None = (
        None  # None: $RAY_ADDRESS, else the cluster of this machine, else one of the agent's
    )
    num_cpus: float | None = None
    num_gpus: float | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)


TaskConfig = Subprocess | UvPython | Ray
CONFIGS: Mapping[str, type[Subprocess] | type[UvPython] | type[Ray]] = {
    kind.__name__: kind for kind in (Subprocess, UvPython, Ray)
}


@dataclass(frozen=True, slots=True)
class Retries:
    """The number of starts of a task, and the seconds between: `backoff`, then `factor` times as long, up to `max`."""

    attempts: int = 1  # every start counts: 3 is two retries
    backoff: float = 1.0
    factor: float = 2.0
    max: float = 300.0

    def delay(self, failures: int) -> float:
        """Seconds to wait after so many failures."""
        return Backoff(self.backoff, self.factor, self.max).delay(failures)


@dataclass(frozen=True, slots=True)
class Task:
    """One node of the DAG."""

    name: str
    config: TaskConfig
    description: str | None = None
    depends: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    timeout: float | None = None  # seconds of one attempt
    retries: Retries = Retries()
    allow_failure: bool = False  # when it fails, its dependents and the run continue as if it had succeeded
    always: bool = False  # `when: always`: it runs once its dependencies have ended in any way


class ParameterKind(StrEnum):
    """The type of a parameter's value."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"


ParameterValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a run; required without a default."""

    kind: ParameterKind = ParameterKind.STRING
    default: ParameterValue | None = None
    description: str | None = None
    choices: tuple[ParameterValue, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is None


class Overlap(StrEnum):
    """What a schedule does while an earlier run of the workflow is still open."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"


@dataclass(frozen=True)
class Workflow:
    """A DAG of tasks and when it runs. `id` is its place in the folder: `etl/daily.yml` is `etl.daily`."""

    id: str
    name: str
    tasks: Mapping[str, Task]
    description: str | None = None
    path: str = ""
    cron: str | None = None
    start_time: str | None = None  # RFC 3339; no scheduled run before it
    max_parallel: int | None = None  # tasks of one run at a time; the agent's own limit holds as well
    params: Mapping[str, Parameter] = field(default_factory=dict)
    overlap: Overlap = Overlap.ALLOW
    catch_up: CatchUp = CatchUp.NONE
    requeues: int = 0  # `on_crash`: how often a run whose agent was lost is restarted

    @cached_property
    def dag(self) -> Dag:
        """The tasks and what each waits for; GraphError for a cycle or an unknown name."""
        return Dag({task_id: task.depends for task_id, task in self.tasks.items()})

    @property
    def starts_at(self) -> datetime | None:
        """`start_time` as a moment."""
        return datetime.fromisoformat(self.start_time) if self.start_time else None


PLACEHOLDER = re.compile(r"\{\{\s*params\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_ARTICLES = {
    ParameterKind.STRING: "a text",
    ParameterKind.INTEGER: "a whole number",
    ParameterKind.NUMBER: "a finite number",
    ParameterKind.BOOLEAN: "true or false",
}


def bind(workflow: Workflow, given: Mapping[str, Any]) -> dict[str, ParameterValue]:
    """A value for every parameter of the workflow; InputError for one that is missing, unknown or wrong.

    Text is converted to the type of the parameter, since a command line has only text: "10" is the integer 10.
    """
    for name in given:
        if name not in workflow.params:
            known = suggestion(name, workflow.params) or "; it has no parameters"
            raise InputError(f"workflow {workflow.id!r} has no parameter {name!r}{known}")
    bound: dict[str, ParameterValue] = {}
    for name, parameter in workflow.params.items():
        value = given.get(name)
        if value is None:
            value = parameter.default
        if value is None:
            raise InputError(
                f"workflow {workflow.id!r} needs the parameter {name!r}, {_ARTICLES[parameter.kind]}"
            )
        try:
            bound[name] = checked(parameter, value)
        except InputError as error:
            raise InputError(f"parameter {name!r} of workflow {workflow.id!r} {error}") from error
    return bound


def checked(parameter: Parameter, value: Any) -> ParameterValue:
    """Convert a value to the parameter's type; InputError when it is invalid, or none of the choices."""
    try:
        found = _READERS[parameter.kind](value)
    except (ValueError, OverflowError):
        raise InputError(f"is {value!r}; expected {_ARTICLES[parameter.kind]}") from None
    if parameter.choices and found not in parameter.choices:
        raise InputError(f"is {found!r}; expected one of {', '.join(map(repr, parameter.choices))}")
    return found


def rendered(task: Task, values: Mapping[str, ParameterValue]) -> Task:
    """The task with the values in its arguments and environment."""
    env = {name: render(text, values) for name, text in task.env.items()}
    config = task.config
    if isinstance(config, (Subprocess, Ray)):
        config = dataclasses.replace(config, args=tuple(render(text, values) for text in config.args))
    return dataclasses.replace(task, config=config, env=env)


def rendered_workflow(workflow: Workflow, values: Mapping[str, ParameterValue]) -> Workflow:
    """The workflow with the values in every task."""
    tasks = {task_id: rendered(task, values) for task_id, task in workflow.tasks.items()}
    return dataclasses.replace(workflow, tasks=tasks)


def render(text: str, values: Mapping[str, ParameterValue]) -> str:
    """Replace each placeholder, in one pass, so that a value that looks like a placeholder stays."""
    return PLACEHOLDER.sub(lambda match: shown(values[match[1]]) if match[1] in values else match[0], text)


def shown(value: ParameterValue) -> str:
    """A value as the text that programs read."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _string(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    return value


def _integer(value: Any) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    number = value if isinstance(value, int) else float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool):
        return value
    raise ValueError


_READERS: dict[ParameterKind, Callable[[Any], ParameterValue]] = {
    ParameterKind.STRING: _string,
    ParameterKind.INTEGER: _integer,
    ParameterKind.NUMBER: _number,
    ParameterKind.BOOLEAN: _boolean,
}
