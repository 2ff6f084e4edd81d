"""External tasks on the fleet: a task is one run of a workflow file, and the id of the run is the id of the task.

Parameters of the step are parameters of the run; lists and maps are passed as JSON text. The result: a task of the run
whose last line of standard output is a JSON object supplies its fields, later tasks before earlier ones; and `status`,
`exit_code` and `run_id` of the run itself, where the return clause has fields of these names.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from afl.bridges.bridge import Bridge, ExternalTask, Host, NotReady, Outcome, Refused, declared_values
from afl.fleet.client import AsyncClient
from afl.fleet.errors import PrincipalAway, PrincipalFailed, RequestRefused
from afl.fleet.messages import Level, LogLine, RunDetail, Status, TaskView
from afl.fleet.protocol import whole_lines
from afl.fleet.requests import CancelRun, GetLogs, GetRun, RunWorkflow, WatchRun
from afl.fleet.settings import FleetSettings
from afl.fleet.workflow_json import decode_workflow
from afl.kernel import codec, telemetry
from afl.kernel.errors import AgentFlowError
from afl.kernel.telemetry import Ended, traceparent_of
from afl.runtime.monitoring.tracing import traceparent_of_task


def tell(external: ExternalTask, detail: RunDetail) -> None:
    """Report the run and the last attempt of each of its started tasks as spans of the trace."""
    if not telemetry.is_tracing():
        return
    run, workflow_id = detail.run, external.task.workflow_id
    own = traceparent_of(workflow_id, f"fleet {run.run_id}")  # its id alone is that of the task
    ended = run.ended_at or run.created_at
    about: dict[str, telemetry.Attribute] = {
        "afl.fleet.run": run.run_id,
        "afl.fleet.workflow": run.workflow_id,
    }
    problem = "" if run.status is Status.COMPLETED else run.error or run.status.value
    begun = run.started_at or run.created_at
    place = {**about, "afl.fleet.agent": run.agent_id, "afl.attempt": run.attempt}
    telemetry.report(
        Ended("afl.fleet.run", own, traceparent_of_task(external.task), begun, ended, problem, place)
    )
    for task in detail.tasks:
        if task.started_at is not None:
            mine = traceparent_of(workflow_id, task.task_instance_id)
            problem = "" if task.status is Status.COMPLETED else task.error or task.status.value
            named = {**about, "afl.fleet.task": task.task_id, "afl.attempt": task.attempt}
            end = task.ended_at or ended
            telemetry.report(Ended("afl.fleet.task", mine, own, task.started_at, end, problem, named))


_log = logging.getLogger(__name__)

_WATCHED = 200  # runs that are watched at a time; the others are polled
_WATCH_MS = 10_000
_QUEUED_MS = 3_000  # for a run that no agent has taken
_AGAIN_SECONDS = 1.0
_LAST_PIECES = 50  # of standard output; the line with the result consists of the last of these
_SHOWN_LINES = 5
_KINDS = {
    Status.FAILED: "FleetFailed",
    Status.CRASHED: "FleetCrashed",
    Status.CANCELED: "FleetCanceled",
}


class FleetBridge(Bridge):
    """`with Fleet("etl.daily")`."""

    kind = "fleet"

    def __init__(self, host: Host, settings: FleetSettings) -> None:
        self._host = host
        self._client = AsyncClient(settings)
        self._watching: dict[str, asyncio.Task[None]] = {}

    async def start(self, external: ExternalTask) -> None:
        request = RunWorkflow(workflow_id=external.to, params=_parameters(external), run_id=external.id)
        try:
            await self._client.call(request)
        except PrincipalAway as away:
            raise NotReady(f"{away}; `afl fleet principal` starts one") from away
        except RequestRefused as refused:
            if not await self._is_there(external.id):  # it may have started before the file was changed
                raise Refused(f"the fleet refuses {external.to}: {refused}", "FleetRefused") from refused
        self._watch(external.id)

    async def poll(self, externals: Sequence[ExternalTask]) -> list[Outcome]:
        """Poll the runs that are not watched; the end of a watched run is received."""
        outcomes = []
        for external in externals:
            if external.id not in self._watching:
                detail = await self._detail(external.id)
                if detail is not None and detail.run.status.is_final:
                    outcomes.append(await self._outcome(external, detail))
                elif detail is not None:
                    self._watch(external.id)
        return outcomes

    async def retain(self, externals: Sequence[ExternalTask]) -> None:
        for run_id in self._watching.keys() - {external.id for external in externals}:
            self._watching.pop(run_id).cancel()

    async def cancel(self, external_id: str, to: str) -> bool:
        watching = self._watching.pop(external_id, None)
        if watching is not None:
            watching.cancel()
        detail = await self._detail(external_id)
        if detail is not None and not detail.run.status.is_final:
            await self._client.call(CancelRun(external_id, "its step does not wait for it any more"))
        return detail is not None

    async def close(self) -> None:
        for task in self._watching.values():
            task.cancel()
        if self._watching:
            await asyncio.wait(self._watching.values())
        self._client.close()

    def _watch(self, run_id: str) -> None:
        if run_id not in self._watching and len(self._watching) < _WATCHED:
            task = asyncio.ensure_future(self._follow(run_id))
            self._watching[run_id] = task
            task.add_done_callback(lambda done: self._over(run_id, done))

    def _over(self, run_id: str, task: asyncio.Task[None]) -> None:
        if self._watching.get(run_id) is task:
            del self._watching[run_id]

    async def _follow(self, run_id: str) -> None:
        """Wait for the end of a run, through outages of the principal."""
        version, patience_ms = 0, _WATCH_MS
        waits = told = ""
        while True:
            try:
                detail = await self._client.call(WatchRun(run_id, version, patience_ms))
                if detail.run.status.is_final:
                    external = await self._host.find(run_id)
                    if external is not None:
                        await self._host.settle(await self._outcome(external, detail))
                    return
                version = detail.run.version
                if (
                    detail.run.waits == waits != told
                ):  # the same reason twice in a row: an agent may just be starting
                    told = waits
                    await self._host.queued(run_id, f"run {run_id} waits: {waits}" if waits else "")
                waits = detail.run.waits
                patience_ms = _QUEUED_MS if waits else _WATCH_MS
            except RequestRefused:  # unknown there; polling decides whether to start it
                return
            except (AgentFlowError, OSError) as error:
                _log.debug("run %s cannot be watched: %s", run_id, error)
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _detail(self, run_id: str) -> RunDetail | None:
        try:
            return await self._client.call(GetRun(run_id))
        except RequestRefused:
            return None
        except (PrincipalAway, PrincipalFailed) as away:
            raise NotReady(str(away)) from away

    async def _is_there(self, run_id: str) -> bool:
        return await self._detail(run_id) is not None

    async def _outcome(self, external: ExternalTask, detail: RunDetail) -> Outcome:
        tell(external, detail)
        if detail.run.status is not Status.COMPLETED:
            kind = _KINDS.get(detail.run.status, "FleetFailed")
            return Outcome(external.id, error=await self._reason(external, detail), kind=kind)
        own = {
            "status": detail.run.status.value,
            "run_id": detail.run.run_id,
            "exit_code": max((task.exit_code or 0 for task in detail.tasks), default=0),
        }
        printed: dict[str, Any] = {}
        wanted = None if external.returns is None else {field.name for field in external.returns} - own.keys()
        if wanted is None or wanted:
            for task in sorted(detail.tasks, key=lambda task: task.ended_at or 0):
                printed |= _printed(await self._lines(detail, task, _LAST_PIECES, Level.INFO))
        if external.returns is None:
            return Outcome(external.id, result=printed)
        return Outcome(external.id, result=declared_values(external, own | printed))

    async def _reason(self, external: ExternalTask, detail: RunDetail) -> str:
        """Why it was canceled, or the task that failed and its last lines."""
        run = detail.run
        text = f"fleet run {run.run_id} of {external.to} is {run.status.value}"
        if run.status is Status.CANCELED:
            return f"{text}: {run.cancel_reason}" if run.cancel_reason else text
        failed = _failed_task(detail)
        if failed is None:
            return f"{text}: {run.error}" if run.error else text
        lines = [line.payload for line in await self._lines(detail, failed, _SHOWN_LINES)]
        why = failed.error or run.error or "failed"
        return "\n  ".join([f"{text}: task {failed.task_id}: {why}", *lines])

    async def _lines(self, detail: RunDetail, task: TaskView, last: int, level: str = "") -> list[LogLine]:
        """The last lines of a task, of standard output and error unless the level says which."""
        run_id, instance = detail.run.run_id, task.task_instance_id
        request = GetLogs(run_id=run_id, task_instance_id=instance, level=level, last=last)
        return (await self._client.call(request)).lines


def _failed_task(detail: RunDetail) -> TaskView | None:
    """The first task that failed and was not allowed to."""
    tasks = decode_workflow(bytes(detail.workflow)).tasks
    for task in detail.tasks:
        allowed = task.task_id in tasks and tasks[task.task_id].allow_failure
        if task.status in (Status.FAILED, Status.CRASHED) and not allowed:
            return task
    return None


def _parameters(external: ExternalTask) -> dict[str, Any]:
    """A run takes text, numbers and booleans; a null is left to the default of the workflow."""
    return {
        name: codec.encode(value, what=f"parameter {name}") if isinstance(value, (list, dict)) else value
        for name, value in external.parameters.items()
        if value is not None
    }


def _printed(lines: Sequence[LogLine]) -> dict[str, Any]:
    """The last line of standard output, if it is a JSON object."""
    said = whole_lines(line.payload for line in lines if line.level == Level.INFO)
    text = said[-1] if said else ""
    value = codec.value_of(text)
    return value if isinstance(value, dict) else {}
