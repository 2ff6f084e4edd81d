"""Why a step is not done that is a run of its own."""

from __future__ import annotations

import pytest
from operated_store import begin

from afl.operations.reason.reasons import Outlook
from afl.operations.reason.why import why
from afl.runtime.memory_store import MemoryStore
from afl.runtime.types import WorkflowId

SOURCE = """namespace t {
    event facet Charge(n: Long) => (total: Long)
    workflow Order(n: Long) => (total: Long) andThen {
        paid = Charge(n = $.n)
        yield Order(total = paid.total)
    }
    workflow Main(n: Long) => (total: Long) andThen {
        order = Order(n = $.n) with Run(id = "order-7")
        yield Main(total = order.total)
    }
}
"""


@pytest.fixture
def run(store: MemoryStore) -> str:
    return begin(store, SOURCE, workflow="t.Main")


def test_why_follows_to_the_child(store: MemoryStore, run: str) -> None:
    reason = why(store, run)
    assert [each.code for each in reason.chain] == [
        "run-waits",
        "step-waits-for-run",
        "run-waits",
        "step-waits-for-agent",
        "task-unserved",
    ]
    assert list(reason.chain)[1].sentence == "it waits for the run order-7 of t.Order."
    assert reason.outlook is Outlook.STANDS
    (task,) = store.get_tasks_by_workflow(WorkflowId(run))
    does = why(store, task.uuid)
    assert (does.code, does.sentence) == ("task-child-run", "the run order-7 does it.")


def test_why_of_a_step_whose_run_has_ended(store: MemoryStore, run: str) -> None:
    store.cancel_run(WorkflowId("order-7"), "by hand")
    reason = list(why(store, run).chain)[1]
    assert reason.sentence == "it waits for the run order-7, which is canceled; a sweep tells it."
