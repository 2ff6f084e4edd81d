"""A process that hosts bridges dies at each place where it could lose or double something; another one goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import Outcome
from support.warm_processes import afl_warm

from afl.kernel import crashpoint
from afl.kernel.database import queries
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.types import WorkflowId

SOURCE = """
event facet Read(letter: String) => (summary: String) with Agent("clerk")
event facet Sort(text: String) => (shelf: String)
event facet Translate(text: String) => (text: String) with Message("translator")

workflow Post() => (text: String, shelf: String) andThen {
    seen = Read(letter = "Dear house")
    sorted = Sort(text = seen.summary)
    french = Translate(text = seen.summary)
    yield Post(text = french.text, shelf = sorted.shelf)
}
"""
MODULE = """
from afl.bridges import answers
from afl.models import ScriptedModel
from afl.models.scripted import calls
from afl.turns import agent

model = ScriptedModel(lambda request: calls("submit_result", {"result": {"summary": "a leak", "shelf": "3"}}))
clerk, sorter = agent("clerk"), agent("sorter")


@answers("translator")
def translate(text):
    return {"text": "une fuite"}
"""
OUTPUTS = {"text": "une fuite", "shelf": "3"}
PLACES = [*((point, 1) for point in crashpoint.BRIDGE_POINTS), ("bridge.begun", 2), ("bridge.settle", 2)]


def afl(folder: Path, *args: str, **variables: str) -> Outcome:
    settings = {
        "AFL_STORE": f"sqlite:///{folder}/post.db",
        "AFL_BRIDGES": '{"Sort": "agent:sorter"}',
        "AFL_LEASE_MS": "60000",
        "AFL_POLL_INTERVAL_MS": "100",
    }
    return afl_warm(*args, "--agent", "post.py", "--quiet", folder=folder, **settings, **variables)


@pytest.mark.parametrize(("point", "times"), PLACES)
def test_the_next_one_goes_on_and_every_task_is_one_turn(tmp_path: Path, point: str, times: int) -> None:
    (tmp_path / "post.afl").write_text(SOURCE)
    (tmp_path / "post.py").write_text(MODULE)
    killed = afl(tmp_path, "run", "post.afl", AFL_CRASH_AT=f"{point}:{times}")
    assert killed.code == -9, killed.err
    store = SqliteStore(f"sqlite:///{tmp_path}/post.db")
    (run,) = store.get_runs()
    assert not run.is_over
    resumed = afl(tmp_path, "resume", run.workflow_id)
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out) == OUTPUTS
    turns = queries("afl.turns.store", "sql/inbox").rows_of_agent
    rows = store.database.read(
        lambda tx: [
            row
            for agent in ("clerk", "sorter")
            for row in tx.all(turns, project="main", agent=agent, limit=99)
        ]
    )
    tasks = [task for task in store.get_tasks_by_workflow(WorkflowId(run.workflow_id)) if "agent" in task.via]
    store.close()
    assert sorted(row["correlation_id"] for row in rows) == sorted(task.uuid for task in tasks)
    assert len(rows) == 2
