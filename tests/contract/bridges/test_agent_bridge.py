"""Steps `with Agent(...)`: one turn per task, typed results, failures, cancels and timeouts that reach the turn."""

from __future__ import annotations

import asyncio

from support.crossings import Crossing, Gate
from support.eventually import eventually

from afl.kernel.database import Row, queries
from afl.models import Reply, Request, ScriptedModel
from afl.models.messages import ToolResult
from afl.models.scripted import calls
from afl.operations.run.control import cancel
from afl.runtime.stores.sql_store import SqlStore
from afl.turns import agent
from afl.turns.agents import Agents
from afl.turns.bus.local import LocalBus
from afl.turns.definition import AgentDefinition, establish
from afl.turns.engine import L0Engine

ASK = """
schema Place {
    name: String
}
/** Find places. @return places all of them @return best the number of the best */
event facet Find(topic: String, most: Long) => (
    places: [Place], best: Long, good: Boolean, note: String, share: Double
) with Agent("finder"MORE)
workflow W() => (places: [Place], best: Long, good: Boolean, note: String, share: Double) andThen {
    found = Find(topic = "islands", most = 2)
    yield W(places = found.places, best = found.best, good = found.good, note = found.note, share = found.share)
}
"""
SMALL = """
event facet Say(word: String) => (answer: String) with Agent("echo") POLICY
workflow W() => (answer: String) andThen {
    said = Say(word = "hello")
    yield W(answer = said.answer)
}
"""
FINDER = agent("finder", "You find.")
ECHO = agent("echo", "You repeat.")
Q = queries("afl.turns.store", "sql/inbox")


def turns(crossing: Crossing) -> list[Row]:
    assert isinstance(crossing.store, SqlStore)
    return crossing.store.database.read(
        lambda tx: [
            *tx.all(Q.rows_of_agent, project="main", agent="echo", limit=1000),
            *tx.all(Q.rows_of_agent, project="main", agent="finder", limit=1000),
        ]
    )


def asked(crossing: Crossing) -> list[str]:
    """The correlations of all turns that were asked for."""
    return sorted(row["correlation_id"] for row in turns(crossing) if row["message_type"] == "turn")


def established(crossing: Crossing, definition: AgentDefinition) -> None:
    """The agent is in the store; whoever works for it is not here."""
    assert isinstance(crossing.store, SqlStore)
    engine = L0Engine(crossing.store.database, LocalBus(crossing.store.database))
    asyncio.run(establish(Agents(engine, "main"), [definition]))


def test_parameters_go_in_and_fields_come_back_as_their_types(crossing: Crossing) -> None:
    told: list[Request] = []

    def think(request: Request) -> Reply:
        told.append(request)
        fields = {"places": [{"name": "Skye"}], "best": 1, "good": True, "note": "7", "share": 0.5}
        return calls("submit_result", {"result": fields})

    crossing.staff(FINDER, model=ScriptedModel(think))
    source = ASK.replace("MORE", ', instructions = "Be brief."')
    report = crossing.run(source, bridges=crossing.host())
    assert report.outputs == {
        "places": [{"name": "Skye"}],
        "best": 1,
        "good": True,
        "note": "7",
        "share": 0.5,
    }
    words = str(told[0].messages)
    assert "Be brief." in words and "Find places." in words and '"topic":"islands"' in words
    submit = next(tool for tool in told[0].tools if tool.name == "submit_result")
    best = submit.input_schema["properties"]["result"]["properties"]["best"]
    assert best == {"type": "integer", "description": "the number of the best"}
    assert asked(crossing) == [crossing.task(report.run).uuid]


def test_a_field_of_another_type_goes_back_to_the_model(crossing: Crossing) -> None:
    told: list[Request] = []
    fields = {"places": [], "best": "first", "good": True, "note": "", "share": 1}

    def think(request: Request) -> Reply:
        told.append(request)
        return calls("submit_result", {"result": fields | {"best": "1"} if told[1:] else fields})

    crossing.staff(FINDER, model=ScriptedModel(think))
    report = crossing.run(ASK.replace("MORE", ""), bridges=crossing.host())
    assert report.outputs is not None and report.outputs["best"] == 1
    assert "is not of type" in str(told[1].messages[-1]) and "$.best" in str(told[1].messages[-1])


def test_a_result_that_never_fits_fails_the_step(crossing: Crossing) -> None:
    fields = {"places": [], "best": "first", "good": True, "note": "", "share": 1}
    crossing.staff(FINDER, model=ScriptedModel(lambda request: calls("submit_result", {"result": fields})))
    report = crossing.run(ASK.replace("MORE", ""), bridges=crossing.host())
    assert report.error is not None and report.error.error_type == "invalid_result"
    assert "attempts: 4; the last one: $.best: 'first' is not of type 'integer'" in report.error.message


def test_a_turn_that_fails_fails_the_step_with_its_code(crossing: Crossing) -> None:
    def think(request: Request) -> str:
        raise RuntimeError("no thoughts today")

    crossing.staff(ECHO, model=ScriptedModel(think))
    report = crossing.run(SMALL.replace("POLICY", ""), bridges=crossing.host())
    assert report.error is not None
    assert "the turn of agent echo failed" in report.error.message
    assert "no thoughts today" in report.error.message
    assert report.error.error_type == "internal_error"


def test_an_agent_that_ends_with_words_is_told_what_is_missing(crossing: Crossing) -> None:
    submits = calls("submit_result", {"result": {"answer": "hello yourself"}})
    crossing.staff(ECHO, model=ScriptedModel(["hello yourself", submits]))
    report = crossing.run(SMALL.replace("POLICY", ""), bridges=crossing.host())
    assert report.outputs == {"answer": "hello yourself"}


def test_an_agent_that_only_talks_fails_the_step(crossing: Crossing) -> None:
    crossing.staff(ECHO, model=ScriptedModel(lambda request: "hello yourself"))
    report = crossing.run(SMALL.replace("POLICY", ""), bridges=crossing.host())
    assert report.error is not None and report.error.error_type == "missing_fields"


def test_an_agent_that_is_not_there_yet_is_waited_for(crossing: Crossing) -> None:
    bridges = crossing.host()
    report = crossing.run(SMALL.replace("POLICY", ""), bridges=bridges)
    assert report.status == "PAUSED"
    (waiting,) = report.waiting_for
    assert waiting.via == "agent:echo" and "not in the roster of main" in waiting.why
    crossing.staff(ECHO, model=ScriptedModel([calls("submit_result", {"result": {"answer": "hello"}})]))
    eventually(lambda: not bridges.reason(crossing.task(report.run)))
    assert crossing.resume(report.run, bridges).outputs == {"answer": "hello"}


def test_a_canceled_run_stops_the_turn_at_work(crossing: Crossing) -> None:
    gate = Gate()

    def slow() -> str:
        """Takes its time."""
        gate.pass_through()
        return "done"

    def think(request: Request) -> Reply:
        said = [block for message in request.messages for block in message.content]
        if any(isinstance(block, ToolResult) for block in said):
            return calls("submit_result", {"result": {"answer": "late"}})
        return calls("slow", {})

    crossing.staff(agent("echo", tools=[slow]), model=ScriptedModel(think))
    crossing.host()
    run = crossing.submit(SMALL.replace("POLICY", ""))
    assert gate.entered.wait(60)
    cancel(crossing.store, run)
    eventually(lambda: crossing.is_told(run))
    eventually(lambda: any(row["message_type"] == "stop" for row in turns(crossing)))
    gate.opened.set()
    eventually(lambda: all(row["status"] in ("consumed", "skipped") for row in turns(crossing)))


def test_a_timeout_stops_the_turn_and_another_attempt_is_another_turn(crossing: Crossing) -> None:
    established(crossing, ECHO)
    policy = "with Timeout(ms = 300) with Retry(2, backoff = 10)"
    report = crossing.run(SMALL.replace("POLICY", policy), bridges=crossing.host())
    assert report.error is not None and report.error.error_type == "Timeout"
    task = crossing.task(report.run)
    assert asked(crossing) == [task.uuid, f"{task.uuid}-1"]
    eventually(lambda: crossing.is_told(report.run))
    crossing.staff(ECHO, model=ScriptedModel([]))  # which would fail if it were asked
    eventually(lambda: all(row["status"] in ("consumed", "skipped") for row in turns(crossing)))


def test_many_hosts_that_come_and_go_make_one_turn_per_task(crossing: Crossing) -> None:
    source = """
    event facet Say(word: Long) => (answer: Long) with Agent("echo")
    facet Each(words: [Long]) => (answers: [Long]) andThen foreach word in $.words {
        said = Say(word = word)
        yield Each(answers = [said.answer])
    }
    workflow W(words: [Long]) => (answers: [Long]) andThen {
        all = Each(words = $.words)
        yield W(answers = all.answers)
    }
    """
    agents = [agent("echo"), agent("finder")]
    hosts = [crossing.host() for _ in range(3)]
    run = crossing.submit(source, {"words": list(range(12))})

    def think(request: Request) -> Reply:
        return calls("submit_result", {"result": {"answer": 1}})

    crossing.staff(*agents, model=ScriptedModel(think))
    crossing.stop(hosts[0])
    eventually(lambda: len(asked(crossing)) >= 4)
    crossing.stop(hosts[1])
    crossing.host()
    crossing.until(run, "completed")
    assert asked(crossing) == sorted(task.uuid for task in crossing.tasks(run))
