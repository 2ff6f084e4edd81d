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

import msgspec

from afl.bridges.bridge import Bridge, Ending, Errand, Host, NotReady, Refused, chosen
from afl.fleet.client import AsyncClient
from afl.fleet.errors import PrincipalAway, PrincipalFailed, RequestRefused
from afl.fleet.messages import Level, LogLine, RunDetail, Status, TaskView
from afl.fleet.protocol import whole_lines
from afl.fleet.requests import CancelRun, GetLogs, GetRun, RunWorkflow, WatchRun
from afl.fleet.settings import FleetSettings
from afl.kernel import codec, telemetry
from afl.kernel.errors import AgentFlowError
from afl.kernel.telemetry import Ended
from afl.kernel.trace_ids import traceparent_of
from afl.runtime.monitoring.tracing import traceparent_of_task


def tell(errand: Errand, detail: RunDetail) -> None:
    """The run and the last attempt of each of its tasks that began."""
    if not telemetry.is_tracing():
        return
    run, workflow_id = detail.run, errand.task.workflow_id
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
        Ended("afl.fleet.run", own, traceparent_of_task(errand.task), begun, ended, problem, place)
    )
    for task in detail.tasks:
        if task.started_at is not None:
            mine = traceparent_of(workflow_id, task.task_instance_id)
            problem = "" if task.status is Status.COMPLETED else task.error or task.status.value
            named = {**about, "afl.fleet.task": task.task_id, "afl.attempt": task.attempt}
            end = task.ended_at or ended
            telemetry.report(Ended("afl.fleet.task", mine, own, task.started_at, end, problem, named))


_log = logging.getLogger(__name__)

_WATCHED = 200  # runs that are watched at a time; the others are looked at now and then
_WATCH_MS = 10_000
_QUEUED_MS = 3_000  # for a run that no agent takes
_AGAIN_SECONDS = 1.0
_LAST_LINES = 50  # among them the line with the output is looked for
_SHOWN_LINES = 5
_KINDS = {
    Status.FAILED: "FleetFailed",
    Status.CRASHED: "FleetCrashed",
    Status.CANCELLED: "FleetCancelled",
}


class FleetBridge(Bridge):
    """`with Fleet("etl.daily")`."""

    kind = "fleet"

    def __init__(self, host: Host, settings: FleetSettings) -> None:
        self._host = host
        self._client = AsyncClient(settings)
        self._watching: dict[str, asyncio.Task[None]] = {}

    async def begin(self, errand: Errand) -> None:
        request = RunWorkflow(workflow_id=errand.to, params=_parameters(errand), run_id=errand.id)
        try:
            await self._client.call(request)
        except PrincipalAway as away:
            raise NotReady(f"{away}; `afl fleet principal` starts one") from away
        except RequestRefused as refused:
            if not await self._is_there(errand.id):  # it may have begun before the file was changed
                raise Refused(f"the fleet refuses {errand.to}: {refused}", "FleetRefused") from refused
        self._watch(errand.id)

    async def look(self, errands: Sequence[Errand]) -> list[Ending]:
        """A run that is watched tells of its end by itself."""
        endings = []
        for errand in errands:
            if errand.id not in self._watching:
                detail = await self._detail(errand.id)
                if detail is not None and detail.run.status.is_final:
                    endings.append(await self._ending(errand, detail))
                elif detail is not None:
                    self._watch(errand.id)
        return endings

    async def keep(self, errands: Sequence[Errand]) -> None:
        for run_id in self._watching.keys() - {errand.id for errand in errands}:
            self._watching.pop(run_id).cancel()

    async def cancel(self, errand_id: str, to: str) -> bool:
        watching = self._watching.pop(errand_id, None)
        if watching is not None:
            watching.cancel()
        detail = await self._detail(errand_id)
        if detail is not None and not detail.run.status.is_final:
            await self._client.call(CancelRun(errand_id, "its step does not wait for it any more"))
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
                    errand = await self._host.errand(run_id)
                    if errand is not None:
                        await self._host.settle(await self._ending(errand, detail))
                    return
                version = detail.run.version
                if detail.run.waits == waits != told:  # at two looks in a row: an agent may just be starting
                    told = waits
                    await self._host.queued(run_id, f"run {run_id} waits: {waits}" if waits else "")
                waits = detail.run.waits
                patience_ms = _QUEUED_MS if waits else _WATCH_MS
            except RequestRefused:  # it is not there; looking finds out whether it should be
                return
            except (AgentFlowError, OSError) as error:
                _log.debug("run %s is not seen: %s", run_id, error)
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

    async def _ending(self, errand: Errand, detail: RunDetail) -> Ending:
        tell(errand, detail)
        if detail.run.status is not Status.COMPLETED:
            kind = _KINDS.get(detail.run.status, "FleetFailed")
            return Ending(errand.id, error=await self._reason(errand, detail), kind=kind)
        own = {
            "status": detail.run.status.value,
            "run_id": detail.run.run_id,
            "exit_code": max((task.exit_code or 0 for task in detail.tasks), default=0),
        }
        printed: dict[str, Any] = {}
        wanted = None if errand.returns is None else {field.name for field in errand.returns} - own.keys()
        if wanted is None or wanted:
            for task in sorted(detail.tasks, key=lambda task: task.ended_at or 0):
                printed |= _printed(await self._lines(detail, task, _LAST_LINES))
        if errand.returns is None:
            return Ending(errand.id, result=printed)
        return Ending(errand.id, result=chosen(errand, own | printed))

    async def _reason(self, errand: Errand, detail: RunDetail) -> str:
        """Which task failed and what it wrote last."""
        run = detail.run
        text = f"fleet run {run.run_id} of {errand.to} is {run.status.value}"
        about = run.cancel_reason if run.status is Status.CANCELLED else run.error
        failed = next((task for task in detail.tasks if task.status in (Status.FAILED, Status.CRASHED)), None)
        if failed is None:
            return f"{text}: {about}" if about else text
        lines = [line.payload for line in await self._lines(detail, failed, _SHOWN_LINES)]
        why = failed.error or about or "failed"
        return "\n  ".join([f"{text}: task {failed.task_id}: {why}", *lines])

    async def _lines(self, detail: RunDetail, task: TaskView, last: int) -> list[LogLine]:
        request = GetLogs(run_id=detail.run.run_id, task_instance_id=task.task_instance_id, last=last)
        return (await self._client.call(request)).lines


def _parameters(errand: Errand) -> dict[str, Any]:
    """A run takes texts, numbers and truths; one that is null is left to the workflow's default."""
    return {
        name: codec.encode(value, what=f"parameter {name}") if isinstance(value, (list, dict)) else value
        for name, value in errand.parameters.items()
        if value is not None
    }


def _printed(lines: Sequence[LogLine]) -> dict[str, Any]:
    """The last line of standard output, if it is a JSON object."""
    said = whole_lines(line.payload for line in lines if line.level == Level.INFO)
    text = said[-1] if said else ""
    try:
        value = codec.decode(text) if text.startswith("{") else {}
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
