"""The client: starts workflows, and finds, watches and steers runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from afl.client.async_calls import AsyncCalls
from afl.client.async_handle import AsyncRunHandle
from afl.client.parts import part
from afl.client.source import Source, as_id, as_mapping, as_name, explained, merged_inputs, read_source
from afl.client.worker import Worker, worker_options
from afl.kernel.errors import InputError
from afl.kernel.schedule import CatchUp
from afl.operations.people.approvals import Answered, Approval, answer, list_approvals, reject
from afl.operations.program.submission import Submitted, start_workflow, submit, submit_source
from afl.operations.run.run_list import RunLine, list_runs
from afl.operations.run.waiting import wait_a_while
from afl.operations.work.timetable import add_source, remove, schedule_workflow, schedules
from afl.runtime.entities import labels
from afl.runtime.schedules import Overlap, WorkflowSchedule
from afl.runtime.signals import Delivery

if TYPE_CHECKING:  # each takes a while to import, and some need an extra
    from afl.client.async_fleet import AsyncFleet
    from afl.client.async_messages import AsyncMessages
    from afl.client.async_turns import AsyncTurns


class AsyncClient:
    """Opened by `async with afl.connect(...) as flow`; it may be used by any number of tasks at a time."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    async def start(
        self,
        source: Source,
        workflow: str | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        id: str | None = None,
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
        task_list: str | None = None,
        budget_usd: float | None = None,
        budget_tokens: int | None = None,
        connection: Any = None,
        **values: Any,
    ) -> AsyncRunHandle:
        """Store a run of a workflow for workers to execute, and return its handle.

        `source` is the path of an AFL file, a text in AFL, a compiled program, or the name of a workflow that the
        store knows. Inputs are given as keywords or in `inputs`; one that is named like an option of this method must
        go into `inputs`. The same `id` again gives the same run, even after it has ended; RunExists if that one has
        another program or other inputs. `name` and `tags` help to find the run.

        With a `connection` of psycopg or sqlite3 to the same database the run is part of its transaction: it is there,
        and found by workers, if and only if that commits.
        """
        found = read_source(source, workflow)
        given = merged_inputs(inputs, values)
        options: dict[str, Any] = {
            "id": as_id(id),
            "run_name": as_name(name),
            "tags": as_mapping("tags", tags) or None,
            "task_list": task_list or self._calls.settings.task_list,
            "budget_usd": budget_usd,
            "budget_tokens": budget_tokens,
        }
        submitted: Submitted
        try:
            if connection is not None:
                start = await self._calls.joined_start(connection, found, given, options)
                submitted = await self._calls.start_on(connection, start)
            elif found.program is not None:
                submitted = await self._calls.call(submit, found.program, given, **options)
            elif found.text:
                submitted = await self._calls.call(
                    submit_source, found.text, found.workflow, given, name=found.name, **options
                )
            else:
                submitted = await self._calls.call(start_workflow, found.workflow, given, **options)
        except InputError as error:
            raise explained(error) from error
        return AsyncRunHandle(self._calls, submitted.run, submitted.workflow)

    async def run(
        self,
        source: Source,
        workflow: str | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        id: str | None = None,
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
        task_list: str | None = None,
        budget_usd: float | None = None,
        budget_tokens: int | None = None,
        timeout: float | None = None,
        **values: Any,
    ) -> dict[str, Any]:
        """Start a workflow and return its outputs when it is over. A worker must be running, here or elsewhere.

        The options are those of `start`; `timeout` and what it raises are those of `handle.result`.
        """
        handle = await self.start(
            source,
            workflow,
            inputs=merged_inputs(inputs, values),
            id=id,
            name=name,
            tags=tags,
            task_list=task_list,
            budget_usd=budget_usd,
            budget_tokens=budget_tokens,
        )
        return await handle.result(timeout=timeout)

    async def get(self, id: str) -> AsyncRunHandle:
        """The handle of a run, by its id, or by a prefix of one that was generated. UnknownRun if there is none."""
        if not id:
            raise InputError("the id of the run is empty")
        found = await self._calls.call(wait_a_while, id)
        return AsyncRunHandle(self._calls, found.run, found.workflow)

    def worker(
        self,
        handlers: Any = None,
        *,
        concurrency: int = 5,
        task_list: str | None = None,
        name: str = "",
        shutdown_seconds: float = 30,
    ) -> Worker:
        """A worker in this process, until its `async with` block exits.

        `handlers` are a map of functions by facet name, a function marked with @handler, an object with marked
        methods, a module, or a list of these. Without any it only evaluates runs, for workers elsewhere. At most
        `concurrency` tasks are worked on at a time. With a server it needs handlers, a token of the role `worker`,
        and a runner on the store, which evaluates the runs.
        """
        settings, options = worker_options(
            self._calls.settings, task_list, name, concurrency, shutdown_seconds
        )
        return self._calls.worker(settings, handlers, options)

    async def schedule(
        self,
        source: Source,
        workflow: str | None = None,
        *,
        cron: str,
        zone: str = "UTC",
        name: str = "",
        inputs: Mapping[str, Any] | None = None,
        catch_up: str = CatchUp.LATEST,
        overlap: str = Overlap.ALLOW,
        time_input: str = "",
        task_list: str | None = None,
        tags: Mapping[str, str] | None = None,
        **values: Any,
    ) -> WorkflowSchedule:
        """Start a workflow on a schedule; a schedule of that name (by default the workflow's) is replaced.

        `source` is that of `start`, but for a compiled program. `cron` has five fields, read in the time `zone`. Runs
        are called like the schedule, and have its `tags`. `catch_up` says which missed times start a run: "none", the
        "latest" or "all"; `overlap` whether one more is started while an earlier run is open: "allow" or "skip". The
        input `time_input` gets the time that a run is for. A schedule that is paused stays so.
        """
        found = read_source(source, workflow)
        given = merged_inputs(inputs, values)
        options: dict[str, Any] = {
            "cron": cron,
            "zone": zone,
            "name": name,
            "catch_up": catch_up,
            "overlap": overlap,
            "time_input": time_input,
            "task_list": task_list or self._calls.settings.task_list,
            "tags": as_mapping("tags", tags) or None,
        }
        if found.program is not None:
            raise InputError(
                "a schedule takes a source or the name of a stored workflow, not a compiled program"
            )
        if not found.text:
            return await self._calls.call(schedule_workflow, found.workflow, given, **options)
        return await self._calls.call(
            add_source, found.text, found.workflow, given, file=found.name, **options
        )

    async def schedules(self) -> list[WorkflowSchedule]:
        """Every schedule, by name."""
        return await self._calls.call(schedules)

    async def unschedule(self, name: str) -> WorkflowSchedule:
        """Remove a schedule; runs that it started stay."""
        return await self._calls.call(remove, name)

    @cached_property
    def turns(self) -> AsyncTurns:
        """Conversational agents."""
        made: AsyncTurns = part("async_turns").AsyncTurns(self._calls)
        return made

    @cached_property
    def fleet(self) -> AsyncFleet:
        """DAGs of processes; needs the extra `fleet`."""
        made: AsyncFleet = part("async_fleet").AsyncFleet(self._calls)
        return made

    @cached_property
    def messages(self) -> AsyncMessages:
        """Messages between agents; needs the extra `coordination`."""
        made: AsyncMessages = part("async_messages").AsyncMessages(self._calls)
        return made

    async def signal(
        self, run: str, name: str, value: Mapping[str, Any] | None = None, *, id: str = ""
    ) -> Delivery:
        """Deliver a signal to a run; `id` names this delivery, so that a repeated one changes nothing."""
        return await (await self.get(run)).signal(name, value, id=id)

    async def query(self, run: str, name: str) -> Any:
        """The value that a run has published under a name, or the results of a step."""
        return await (await self.get(run)).query(name)

    async def approvals(self, *, group: str = "", run: str = "", limit: int = 50) -> list[Approval]:
        """Pending approvals, the oldest first."""
        return await self._calls.call(list_approvals, group=group, run=run, limit=limit)

    async def approve(self, id: str, values: Mapping[str, Any] | None = None) -> Answered:
        """Approve: the step continues with these values, the fields of its form by name."""
        return await self._calls.call(answer, id, values)

    async def reject(self, id: str, feedback: str = "") -> Answered:
        """Refuse an approval, and say why."""
        return await self._calls.call(reject, id, feedback)

    async def list(
        self,
        *,
        state: str = "",
        workflow: str = "",
        text: str = "",
        tags: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        longer_than: timedelta | None = None,
        shorter_than: timedelta | None = None,
        min_cost: float = 0,
        max_cost: float = 0,
        limit: int = 100,
    ) -> list[RunLine]:
        """The newest runs, newest first: those in a state (`failed`, `waiting:person`), of a workflow, with words of
        a text, with all of some tags, created since or until a time, by duration, or by cost in dollars.
        """
        page = await self._calls.call(
            list_runs,
            state=state,
            workflow=workflow,
            text=text,
            tags=labels(tags or {}),
            since=_milliseconds(since),
            until=_milliseconds(until),
            longer_than=_span(longer_than),
            shorter_than=_span(shorter_than),
            min_cost=min_cost,
            max_cost=max_cost,
            limit=limit,
        )
        return page.runs


def _span(time: timedelta | None) -> str:
    """A span of time as operations read it; InputError for what is none."""
    if time is not None and not isinstance(time, timedelta):
        raise InputError(f"a span of time is a timedelta, got {time!r:.80}")
    return "" if time is None else f"{round(time.total_seconds() * 1000)}ms"


def _milliseconds(moment: datetime | None) -> int:
    """A time as milliseconds since 1970; InputError for one without a zone, and for what is no time."""
    if moment is None:
        return 0
    if not isinstance(moment, datetime):
        raise InputError(f"since and until are datetimes with a zone, got {moment!r:.80}")
    if moment.tzinfo is None:
        raise InputError(f"the time {moment} has no zone; give one, such as datetime.now(UTC)")
    return round(moment.timestamp() * 1000)
