"""The workflows that can be run: the workflow folder as last read, and their JSON."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from afl.fleet.errors import Problem
from afl.fleet.principal.runs import NewRun
from afl.fleet.workflow import Workflow, bind
from afl.fleet.workflow_folder import WorkflowFolder
from afl.fleet.workflow_json import encode_workflow, needs_of, to_reference_data
from afl.kernel.codec import encode_rows
from afl.kernel.ids import sortable_id

_log = logging.getLogger(__name__)
_FRESH_SECONDS = 1.0


def _nobody() -> None:
    """The default callback."""


class Catalog:
    """Reads the folder off the event loop. A workflow is read again before it is started if its file has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = WorkflowFolder(folder)
        self._guard = asyncio.Lock()
        self._json: Mapping[str, str] = {}
        self._definitions = self._listing = "{}"
        self._looked = -_FRESH_SECONDS
        self.on_change: Callable[[], None] = _nobody

    @property
    def workflows(self) -> Mapping[str, Workflow]:
        return self._folder.workflows

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._folder.problems

    @property
    def definitions(self) -> str:
        """The JSON object of LISTDEFINITIONS: everything."""
        return self._definitions

    @property
    def listing(self) -> str:
        """The JSON object of LSWORKFLOWS: what peers of the reference can read."""
        return self._listing

    async def look(self) -> None:
        """As `refresh`, at most once per second for all callers."""
        if time.monotonic() - self._looked >= _FRESH_SECONDS:
            await self.refresh()

    async def refresh(self) -> bool:
        """Read the folder; whether anything changed."""
        async with self._guard:
            self._looked = time.monotonic()
            before = self.problems
            changed = await asyncio.to_thread(self._folder.refresh)
            if changed:
                await asyncio.to_thread(self._encode)
                self.on_change()
            for problem in self.problems:
                if problem not in before:
                    _log.warning("workflow file ignored: %s", problem)
            return changed

    async def find(self, workflow_id: str) -> Workflow | None:
        """The workflow as its file is now."""
        if not await asyncio.to_thread(self._folder.is_current, workflow_id):
            await self.refresh()
        async with self._guard:  # a refresh in progress has new workflows, and their JSON only at its end
            return self.workflows.get(workflow_id)

    def new_run(
        self, workflow: Workflow, origin: str, params: Mapping[str, Any] | None = None, run_id: str = ""
    ) -> NewRun:
        """A run of the current version of a workflow; InputError for parameters that do not fit."""
        return NewRun(
            run_id=run_id or sortable_id(),
            workflow_id=workflow.id,
            workflow_name=workflow.name,
            workflow=self._json.get(workflow.id) or encode_workflow(workflow),
            requeues=workflow.requeues,
            params=bind(workflow, params or {}),
            origin=origin,
            needs=needs_of(workflow),
        )

    def _encode(self) -> None:
        found = {name: encode_workflow(workflow) for name, workflow in self.workflows.items()}
        self._json = found
        self._definitions = encode_rows({name: msgspec.Raw(text.encode()) for name, text in found.items()})
        readable = {name: to_reference_data(workflow) for name, workflow in self.workflows.items()}
        self._listing = encode_rows({name: value for name, value in readable.items() if value is not None})
