"""Schedules as an operator sees them: workflows that run on a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from afl.kernel.clock import wall_ms
from afl.kernel.cron import Cron, zone_named
from afl.kernel.errors import NotFoundError
from afl.kernel.schedule import CatchUp
from afl.operations.parameters import Tags, about
from afl.operations.program.library import program_named
from afl.operations.program.sources import SourceText, program_of
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.schedules import Overlap, WorkflowSchedule, WorkflowSchedules, list_schedules

__all__ = [
    "CatchUp",
    "Overlap",
    "WorkflowSchedule",
    "add",
    "add_source",
    "pause",
    "preview",
    "remove",
    "schedule_workflow",
    "schedules",
]

TimeInput = Annotated[
    str, about("An input of the workflow, a String, that gets the time a run is for, with its zone.")
]


def add(
    store: PersistenceAPI,
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    *,
    cron: str,
    name: str = "",
    zone: str = "UTC",
    catch_up: CatchUp = CatchUp.LATEST,
    overlap: Overlap = Overlap.ALLOW,
    time_input: TimeInput = "",
    task_list: str = "default",
    tags: Tags | None = None,
) -> WorkflowSchedule:
    """Have a workflow started by the clock; one of that name (by default the workflow's) is replaced."""
    called = name or program.workflow.name
    kept = WorkflowSchedules(store)
    kept.put(
        called,
        program,
        inputs,
        cron=cron,
        zone=zone,
        catch_up=catch_up,
        overlap=overlap,
        time_input=time_input,
        task_list=task_list,
        tags=tags,
    )
    return _named(kept, called)


def add_source(
    store: PersistenceAPI,
    source: str,
    workflow: str = "",
    inputs: Mapping[str, Any] | None = None,
    *,
    cron: str,
    name: str = "",
    zone: str = "UTC",
    catch_up: CatchUp = CatchUp.LATEST,
    overlap: Overlap = Overlap.ALLOW,
    time_input: TimeInput = "",
    task_list: str = "default",
    tags: Tags | None = None,
    file: str = "",
    libraries: Sequence[SourceText] = (),
) -> WorkflowSchedule:
    """Compile a source and have its workflow started by the clock; a schedule of that name is replaced."""
    program = program_of(source, workflow, name=file, libraries=libraries)
    return add(
        store,
        program,
        inputs,
        cron=cron,
        name=name,
        zone=zone,
        catch_up=catch_up,
        overlap=overlap,
        time_input=time_input,
        task_list=task_list,
        tags=tags,
    )


def schedule_workflow(
    store: PersistenceAPI,
    workflow: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    cron: str,
    name: str = "",
    zone: str = "UTC",
    catch_up: CatchUp = CatchUp.LATEST,
    overlap: Overlap = Overlap.ALLOW,
    time_input: TimeInput = "",
    task_list: str = "default",
    tags: Tags | None = None,
) -> WorkflowSchedule:
    """Have a workflow that the store knows already started by the clock; a schedule of that name is replaced."""
    program = program_named(store, workflow)
    return add(
        store,
        program,
        inputs,
        cron=cron,
        name=name,
        zone=zone,
        catch_up=catch_up,
        overlap=overlap,
        time_input=time_input,
        task_list=task_list,
        tags=tags,
    )


def schedules(store: PersistenceAPI) -> list[WorkflowSchedule]:
    """Every schedule, by name."""
    return list_schedules(store)


def preview(cron: str, zone: str = "UTC", count: int = 5) -> list[int]:
    """When an expression would fire next; ScheduleError for one that cannot be. Needs no store."""
    parsed, where = Cron.parse(cron), zone_named(zone)
    moment: datetime | None = datetime.fromtimestamp(wall_ms() / 1000, UTC)
    found: list[int] = []
    while len(found) < count and moment is not None:
        moment = parsed.next_after(moment, where)
        found += [] if moment is None else [int(moment.timestamp() * 1000)]
    return found


def remove(store: PersistenceAPI, name: str) -> WorkflowSchedule:
    """Remove a schedule; runs that it started stay. NotFoundError if there is none."""
    kept = WorkflowSchedules(store)
    found = _named(kept, name)
    kept.remove(name)
    return found


def pause(store: PersistenceAPI, name: str, *, paused: bool = True) -> WorkflowSchedule:
    """Stop a schedule from starting runs, or let it start them again. NotFoundError if there is none."""
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
        raise NotFoundError(f"there is no schedule {name!r}{known}")
    return found
