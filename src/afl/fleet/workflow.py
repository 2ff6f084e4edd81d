"""A workflow of the fleet: a DAG of tasks, each of which starts one process. Frozen; made from a file or the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from afl.kernel.backoff import Backoff
from afl.kernel.dag import Dag
from afl.kernel.schedule import CatchUp

DEFAULT_REQUEUES = 3  # how often `on_crash: requeue` starts a run anew


@dataclass(frozen=True, slots=True)
class Subprocess:
    """A program and its arguments, started directly: no shell sees them."""

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
    """How often a task is started, and the seconds between: `backoff`, then `factor` times as long, up to `max`."""

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
    allow_failure: bool = False  # when it fails, its dependents and the run go on as if it had not
    always: bool = False  # `when: always`: it runs once its dependencies ended, in whatever way


class ParameterKind(StrEnum):
    """What a parameter's value must be."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"


ParameterValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that a run is given; without a default it must be."""

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
    requeues: int = 0  # `on_crash`: how often a run whose agent vanished is started anew

    @cached_property
    def dag(self) -> Dag:
        """The tasks and what each waits for; GraphError for a cycle or an unknown name."""
        return Dag({task_id: task.depends for task_id, task in self.tasks.items()})

    @property
    def starts_at(self) -> datetime | None:
        """`start_time` as a moment."""
        return datetime.fromisoformat(self.start_time) if self.start_time else None
