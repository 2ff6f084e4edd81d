"""Schedules as an operator sees them: workflows that the clock starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.kernel.errors import InputError
from afl.kernel.schedule import CatchUp
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import Program
from afl.runtime.schedules import WorkflowSchedule, WorkflowSchedules

__all__ = ["CatchUp", "WorkflowSchedule", "add", "pause", "remove", "schedules"]


def add(
    store: PersistenceAPI,
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    *,
    cron: str,
    name: str = "",
    zone: str = "UTC",
    catch_up: CatchUp = CatchUp.LATEST,
    task_list: str = "default",
) -> WorkflowSchedule:
    """Have a workflow started by the clock; one of that name (by default the workflow's) is replaced."""
    called = name or program.workflow.name
    kept = WorkflowSchedules(store)
    kept.put(called, program, inputs, cron=cron, zone=zone, catch_up=catch_up, task_list=task_list)
    return _named(kept, called)


def schedules(store: PersistenceAPI) -> list[WorkflowSchedule]:
    """Every schedule, by name."""
    return WorkflowSchedules(store).all()


def remove(store: PersistenceAPI, name: str) -> WorkflowSchedule:
    """Forget a schedule; runs that it started stay. InputError if there is none."""
    kept = WorkflowSchedules(store)
    found = _named(kept, name)
    kept.remove(name)
    return found


def pause(store: PersistenceAPI, name: str, *, paused: bool = True) -> WorkflowSchedule:
    """Stop a schedule from starting runs, or let it start them again. InputError if there is none."""
    kept = WorkflowSchedules(store)
    _named(kept, name)
    kept.pause(name, paused=paused)
    return _named(kept, name)


def _named(kept: WorkflowSchedules, name: str) -> WorkflowSchedule:
    every = kept.all()
    found = next((each for each in every if each.name == name), None)
    if found is None:
        known = (
            f"; there are {', '.join(each.name for each in every[:10])}"
            if every
            else "; there is none at all"
        )
        raise InputError(f"there is no schedule {name!r}{known}")
    return found
