"""Steps in MongoDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afl.runtime.mongo.collections import Collections
from afl.runtime.mongo.records import step_document, step_from
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, StatementId, StepId, WorkflowId

_OLDEST_FIRST = [("started", 1), ("uuid", 1)]
_CLOSED = [StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR]


class StepCollection(Collections):
    """The StepStore protocol."""

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        found = self._one("steps", {"uuid": step_id})
        return step_from(found) if found else None

    def get_steps(self, step_ids: Sequence[StepId]) -> list[StepDefinition]:
        return self._steps({"uuid": {"$in": list(step_ids)}}) if step_ids else []

    def get_open_steps(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return self._steps({"workflow_id": workflow_id, "state": {"$nin": _CLOSED}})

    def get_steps_by_block(self, block_id: StepId | BlockId) -> list[StepDefinition]:
        return self._steps({"block_id": block_id})

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        return self._steps({"workflow_id": workflow_id})

    def get_steps_by_state(self, state: str) -> list[StepDefinition]:
        return self._steps({"state": state})

    def get_steps_by_container(self, container_id: StepId) -> list[StepDefinition]:
        return self._steps({"container_id": container_id})

    def get_blocks_by_step(self, step_id: StepId) -> list[StepDefinition]:
        return [step for step in self.get_steps_by_container(step_id) if step.is_block]

    def get_workflow_root(self, workflow_id: WorkflowId) -> StepDefinition | None:
        query = {"workflow_id": workflow_id, "root_id": None, "container_id": None}
        found = self._one("steps", query, sort=_OLDEST_FIRST)
        return step_from(found) if found else None

    def step_exists(self, statement_id: StatementId | str, block_id: StepId | BlockId | None) -> bool:
        query = {"block_id": block_id, "statement_id": statement_id}
        return self._one("steps", query, projection={"uuid": 1}) is not None

    def save_step(self, step: StepDefinition) -> None:
        self._save("steps", step_document(step))

    def _steps(self, query: dict[str, Any]) -> list[StepDefinition]:
        return [step_from(each) for each in self._all("steps", query, sort=_OLDEST_FIRST)]
