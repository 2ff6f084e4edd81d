"""States people think in, derived from the stored state of a run and from its open work."""

from __future__ import annotations

from typing import Any

import pytest
from operated_store import serve

from afl.kernel.errors import InputError
from afl.language import compile_source
from afl.operations.parameters import RUN_STATES, WAITING_FOR
from afl.operations.program.sources import choose_workflow
from afl.operations.run import control, runs
from afl.operations.run.leading_inputs import leading_inputs
from afl.operations.run.run_counts import count_states
from afl.operations.run.run_list import list_runs
from afl.operations.run.run_status import WAITS_FOR, RunStatus, Staff, status_of
from afl.runtime.entities import RunDefinition, TaskHold, TaskState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.run_lists import OpenWork
from afl.runtime.task_handlers.handler import Handlers


class Served(Staff):
    """Nobody serves ns.Lonely."""

    def __init__(self) -> None:
        pass

    def serves(self, work: OpenWork, run: RunDefinition) -> bool:
        return work.name != "ns.Lonely"


def work(name: str = "ns.F", **fields: Any) -> OpenWork:
    given = {"task_list": "default", "state": TaskState.PENDING, "hold": "", "via": "", "count": 1, **fields}
    return OpenWork("r", name, retried=given.pop("retried", False), rated=given.pop("rated", False), **given)


PERSON = work(hold=TaskHold.ELSEWHERE, via="human:finance")
SIGNAL = work(hold=TaskHold.ELSEWHERE, via="signal:paid")
CHILD = work("ns.Child", hold=TaskHold.ELSEWHERE, via="run:")
TIMER = work("afl.Sleep", hold=TaskHold.TIMER)
SLOT = work(hold=TaskHold.CONCURRENCY)
RATE = work(rated=True)
QUEUED, LONELY = work(), work("ns.Lonely")
UNDER_WAY = work(state=TaskState.RUNNING)
AT_AGENT = work(hold=TaskHold.ELSEWHERE, via="agent:writer")
HANDED_TO_NOBODY = work("ns.Lonely", hold=TaskHold.ELSEWHERE, via="fleet:report")
AGAIN = work(retried=True)
AGAIN_RUNNING = work(retried=True, state=TaskState.RUNNING)
ASKED_AGAIN = work(hold=TaskHold.ELSEWHERE, via="human:finance", retried=True)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([], RunStatus("running")),
        ([UNDER_WAY], RunStatus("running")),
        ([QUEUED], RunStatus("running")),
        ([AT_AGENT], RunStatus("running")),
        ([HANDED_TO_NOBODY], RunStatus("waiting", "agent", "report")),
        ([HANDED_TO_NOBODY, AT_AGENT], RunStatus("running")),
        ([PERSON], RunStatus("waiting", "person", "finance")),
        ([ASKED_AGAIN], RunStatus("waiting", "person", "finance")),
        ([SIGNAL], RunStatus("waiting", "signal", "paid")),
        ([TIMER], RunStatus("waiting", "timer", "afl.Sleep")),
        ([SLOT], RunStatus("waiting", "slot", "ns.F")),
        ([RATE], RunStatus("waiting", "slot", "ns.F")),
        ([CHILD], RunStatus("waiting", "run", "ns.Child")),
        ([LONELY], RunStatus("waiting", "agent", "ns.Lonely")),
        ([LONELY, QUEUED], RunStatus("running")),
        ([LONELY, UNDER_WAY], RunStatus("running")),
        ([AGAIN], RunStatus("retrying", names="ns.F")),
        ([AGAIN_RUNNING, UNDER_WAY], RunStatus("retrying", names="ns.F")),
        ([PERSON, UNDER_WAY, AGAIN], RunStatus("waiting", "person", "finance")),
        ([SIGNAL, UNDER_WAY], RunStatus("running")),
        ([TIMER, SIGNAL, SLOT], RunStatus("waiting", "signal", "paid")),
    ],
)
def test_a_running_run_is_what_its_open_work_says(tasks: list[OpenWork], expected: RunStatus) -> None:
    assert status_of(RunDefinition("r", "W", "h"), tasks, Served()) == expected


@pytest.mark.parametrize("state", ["created", "paused", "failed", "canceled", "completed"])
def test_any_other_run_is_what_is_stored(state: str) -> None:
    run = RunDefinition("r", "W", "h", state=state, reason="paused by operator ada")
    assert status_of(run, [PERSON], Served()) == RunStatus(state)


def test_a_run_without_budget_waits_for_one() -> None:
    run = RunDefinition("r", "W", "h", state="paused", reason="budget of 1 USD is used up: 1 spent")
    found = status_of(run, [], Served())
    assert (found.words, found.attention) == ("waiting for a budget", True)


def test_attention_is_for_what_somebody_must_act_on() -> None:
    assert [kind for kind in WAITS_FOR if RunStatus("waiting", kind).attention] == [
        "person",
        "budget",
        "agent",
    ]
    assert tuple(WAITS_FOR) == WAITING_FOR
    assert not RunStatus("paused").attention


@pytest.fixture
def store() -> Any:
    opened = MemoryStore()
    yield opened
    opened.close()


SOURCE = """namespace t {
    event facet Approve(n: Long) => (ok: Boolean) with Human("finance")
    event facet Work(n: Long) => (m: Long)
    workflow Ask(n: Long) => (ok: Boolean) andThen { a = Approve($.n) yield Ask(ok = a.ok) }
    workflow Do(n: Long) => (m: Long) andThen { w = Work($.n) yield Do(m = w.m) }
}
"""


def started(store: MemoryStore, workflow: str, n: int) -> str:
    program = choose_workflow(compile_source(SOURCE), workflow)
    return runs.start(store, program, {"n": n}, handlers=Handlers.of({})).run


def test_lists_and_counts_go_by_what_runs_wait_for(store: MemoryStore) -> None:
    asked = [started(store, "t.Ask", n) for n in range(3)]
    alone = started(store, "t.Do", 9)
    control.pause(store, asked[0])

    def listed(state: str, **more: Any) -> list[str]:
        return [line.run for line in list_runs(store, state=state, **more).runs]

    assert listed("waiting:person") == [asked[2], asked[1]]
    assert listed("waiting:agent") == [alone]
    assert listed("waiting") == [alone, asked[2], asked[1]]
    assert listed("waiting", before=alone) == [asked[2], asked[1]]
    assert listed("running") == [] and listed("retrying") == [] and listed("paused") == [asked[0]]
    assert (
        len(listed("waiting", limit=2)) == 2 and list_runs(store, state="waiting", limit=2).next == asked[2]
    )
    counts = {each.state: each.count for each in count_states(store)}
    assert tuple(counts) == RUN_STATES
    assert {state: count for state, count in counts.items() if count} == {
        "waiting": 3,
        "waiting:person": 2,
        "waiting:agent": 1,
        "paused": 1,
    }
    (line,) = list_runs(store, state="waiting:agent").runs
    assert (line.state, line.status_words, line.names) == ("running", "waiting for an agent", "t.Work")
    assert line.inputs == "n=9"


@pytest.mark.parametrize("place", ["Agent", "Fleet", "Message"])
def test_a_run_whose_work_no_server_hands_on_needs_attention(store: MemoryStore, place: str) -> None:
    source = SOURCE.replace("w = Work($.n)", f'w = Work($.n) with {place}("writer")')
    program = choose_workflow(compile_source(source), "t.Do")
    run = runs.start(store, program, {"n": 1}, handlers=Handlers.of({})).run
    (line,) = list_runs(store, state="waiting:agent").runs
    assert (line.run, line.names, line.attention) == (run, "writer", True)
    serve(store, f"afl:{place.lower()}")
    assert list_runs(store, state="waiting").runs == []
    assert [each.run for each in list_runs(store, state="running").runs] == [run]


def test_a_word_that_is_no_state_is_refused(store: MemoryStore) -> None:
    with pytest.raises(InputError, match="'busy' is not a state of a run"):
        list_runs(store, state="busy")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("{}", ""),
        ('{"order": 7, "customer": "Ada"}', "order=7 customer=Ada"),
        ('{"a":[1,2],"b":{"c":1},"d":null,"e":true}', 'a=[1, 2] b={"c": 1} d=null e=true'),
        (f'{{"xs":{list(range(99))},"m":{{"{"k" * 50}":1}}}}', "xs=[99 items] m={1 item}"),
        ('{"a":1,"letter":"Dear Sir or Mad', "a=1 letter=Dear Sir or Mad …"),
        ('{"a":1,"xs":[1,2,3', "a=1 …"),
        ('{"xs":[1,2,3', ""),
        ('{"u":"https://ada:secret@example.org/"}', "u=https://ada:***@example.org/"),
    ],
)
def test_inputs_are_shown_as_far_as_they_were_read(text: str, expected: str) -> None:
    assert leading_inputs(text) == expected
