"""States over the graph, rows of the timeline, the steps of a place, and one step with all that is known of it."""

from __future__ import annotations

from operated_store import CHAIN, begin, double, program_of, refuse

from afl.operations.program.library import source_form
from afl.operations.program.submission import submit
from afl.operations.run import control
from afl.operations.run.place_view import show_place
from afl.operations.run.run_graph import GraphNode, run_graph
from afl.operations.run.run_store import find
from afl.operations.run.run_summary import run_summary
from afl.operations.run.run_timeline import SLICES, run_timeline
from afl.operations.run.run_tree import show
from afl.operations.run.step_view import show_step
from afl.runtime.persistence import PersistenceAPI

EACH = """namespace t {
    event facet Double(n: Long) => (m: Long)
    facet All(ns: [Long]) => (ms: [Long]) andThen foreach n in $.ns {
        one = Double(n = n) catch { yield Double(m = 0) }
        yield All(ms = [one.m])
    }
    workflow Each(ns: [Long]) => (ms: [Long]) andThen {
        all = All(ns = $.ns)
        yield Each(ms = all.ms)
    }
}
"""


def odd_ones_fail(n: int) -> dict[str, int]:
    if n % 2:
        raise ValueError(f"{n} is odd")
    return {"m": 2 * n}


def nodes_of(store: PersistenceAPI, run: str) -> dict[str, GraphNode]:
    return {node.id: node for node in run_graph(store, run).nodes}


def test_every_state_is_laid_over_the_graph(store: PersistenceAPI) -> None:
    run = begin(store, CHAIN, Double=double)
    states = {name: node.state for name, node in nodes_of(store, run).items()}
    assert states == {"0/a": "completed", "0/b": "waiting", "0/c": "not begun"}
    claimed = store.claim_task(["t.Half"])
    assert claimed is not None
    assert nodes_of(store, run)["0/b"].state == "running"
    control.cancel(store, run)
    assert nodes_of(store, run)["0/b"].state == "canceled"


COLLECTED = EACH.replace("foreach n in $.ns", "foreach n in $.ns limit 4 collect lost").replace(
    "=> (ms: [Long]) andThen foreach", "=> (ms: [Long], lost: [sys.Failure]) andThen foreach"
)


def test_failures_that_were_collected_are_those_of_elements_alone(store: PersistenceAPI) -> None:
    source = COLLECTED.replace(" catch { yield Double(m = 0) }", "")
    run = begin(store, source, {"ns": list(range(9))}, Double=odd_ones_fail)
    found = nodes_of(store, run)
    one, whole = found["0/all/0/#/one"], found["0/all"]
    assert (one.counts.completed, one.counts.failed, one.state) == (5, 4, "failed")
    assert (whole.counts.total, whole.counts.failed, whole.state) == (9, 4, "completed")
    assert (run_summary(store, run).line.state, run_graph(store, run).state) == ("completed", "completed")
    rows = {row.name: row.state for row in run_timeline(store, run).rows}
    assert rows == {"all": "completed", "one": "failed"}


def test_elements_are_counted_and_those_that_were_caught_told_apart(store: PersistenceAPI) -> None:
    run = begin(store, EACH, {"ns": list(range(9))}, Double=odd_ones_fail)
    found = nodes_of(store, run)
    one = found["0/all/0/#/one"]
    assert (one.counts.completed, one.counts.caught, one.state) == (5, 4, "caught")
    assert found["0/all"].counts.total == 9
    assert found["0/all"].state == "completed"


def test_a_group_whose_steps_all_wait_waits(store: PersistenceAPI) -> None:
    run = begin(store, EACH, {"ns": [1, 2]})
    assert nodes_of(store, run)["0/all"].state == "waiting"
    store.claim_task(["t.Double"])
    assert nodes_of(store, run)["0/all"].state == "running"


def test_a_run_that_nobody_began_has_a_graph(store: PersistenceAPI) -> None:
    run = submit(store, program_of(CHAIN), {"n": 1}).run
    assert {node.state for node in run_graph(store, run).nodes} == {"not begun"}
    assert run_timeline(store, run).rows == []


def test_the_timeline_has_one_row_per_place(store: PersistenceAPI) -> None:
    run = begin(store, EACH, {"ns": list(range(50))}, Double=double)
    timeline = run_timeline(store, run)
    assert [row.name for row in timeline.rows] == ["all", "one"]
    assert len(timeline.rows[1].slices) == SLICES
    assert max(timeline.rows[1].slices) <= 50
    assert all(0 <= row.start <= row.end <= 1 for row in timeline.rows)
    assert timeline.ticks[0].at == 0
    assert run_timeline(store, run, limit=1).left_out == 1


def test_the_steps_of_a_place_come_in_order_by_state_and_by_page(store: PersistenceAPI) -> None:
    run = begin(store, EACH, {"ns": list(range(12))}, Double=odd_ones_fail)
    place = show_place(store, run, "0/all/0/#/one")
    assert [each.shown for each in place.elements] == [f"all[{number}].one" for number in range(12)]
    assert (place.counts.completed, place.counts.caught) == (6, 6)
    caught = show_place(store, run, "0/all/0/#/one", state="caught", limit=4)
    assert [each.path for each in caught.elements][-1] == "0/all/0/#7/one"
    rest = show_place(store, run, "0/all/0/#/one", state="caught", limit=4, after=caught.next)
    assert ([each.path for each in rest.elements], rest.next) == (["0/all/0/#9/one", "0/all/0/#11/one"], 0)


def test_a_step_tells_its_data_attempts_error_and_source_line(store: PersistenceAPI) -> None:
    run = begin(store, CHAIN, Double=double, Half=refuse)
    step = show_step(store, f"{run}/0/b")
    assert (step.state, step.can_retry, step.inputs, step.outputs) == ("failed", True, {"n": 6}, {})
    assert step.failure is not None
    assert step.failure["message"] == "6 is refused"
    assert step.failed_at is not None
    hit = next(line for line in step.failed_at.lines if line.is_hit)
    assert (hit.text.strip(), hit.caret) == ("b = Half(n = a.m)", " " * 8)
    assert [(each.state, each.attempts, each.failures) for each in step.tasks] == [("failed", 1, 1)]
    (attempt,) = step.attempts
    assert (attempt.number, attempt.outcome, attempt.error) == (1, "failed", "6 is refused")
    assert "raise ValueError" in attempt.traceback
    assert show_step(store, f"{run}/b").path == "0/b"
    summary = run_summary(store, run)
    assert summary.failure == step.failure
    assert summary.excerpt == step.failed_at


def test_a_step_that_has_not_begun_says_what_it_waits_for(store: PersistenceAPI) -> None:
    run = begin(store, CHAIN, Double=double)
    step = show_step(store, f"{run}/0/c")
    assert step.state == "not begun"
    assert step.reason is not None
    assert step.reason.code == "step-waits-for-step"
    assert [each.code for each in step.reason.chain][-1] == "task-unserved"


def test_what_stands_in_a_step_is_listed(store: PersistenceAPI) -> None:
    run = begin(store, EACH, {"ns": [2, 4]}, Double=double)
    assert [each.path for each in show_step(store, f"{run}/0/all").inside] == [
        "0/all/0/#0/one",
        "0/all/0/#1/one",
    ]


def test_a_source_offers_its_workflows_and_the_form_of_the_chosen_one(store: PersistenceAPI) -> None:
    two = CHAIN.rstrip().removesuffix("}") + "    workflow Other() andThen { x = Double(n = 1) }\n}\n"
    offer = source_form(store, two)
    assert (offer.workflows, offer.form) == (["t.Chain", "t.Other"], None)
    chosen = source_form(store, two, workflow="t.Chain")
    assert chosen.form is not None
    assert [each.name for each in chosen.form.fields] == ["n"]
    broken = source_form(store, "namespace {")
    assert broken.form is None
    assert broken.findings[0].severity == "error"


LOOP = """namespace t {
    event facet Double(n: Long) => (m: Long)
    event facet Half(n: Long) => (m: Long)
    facet Until(n: Long) => (m: Long = 0) andThen repeat state { yield Until(m = state.m + 1) } until state.m == $.n
    workflow Loop(n: Long) => (m: Long = 0) andThen repeat last {
        a = Double(n = last.m)
        u = Until(n = 12)
        b = Until(n = a.m) andThen when {
            case last.m < 20 => { yield Until(m = 0) }
            case _ => { c = Half(n = 1) yield Until(m = c.m) }
        }
        yield Loop(m = last.m + u.m - 11 + b.m)
    } until last.m == $.n
}
"""


def test_a_repeat_is_a_box_with_its_latest_iteration(store: PersistenceAPI) -> None:
    run = begin(store, LOOP, {"n": 30}, Double=double)
    found = nodes_of(store, run)
    assert (found["0"].kind, found["0"].title, found["0"].iteration) == ("repeat", "repeat last", 20)
    assert (found["0"].state, found["0"].counts.completed, found["0"].counts.running) == ("waiting", 10, 1)
    assert (found["0/#/u"].note, found["0/#/u"].iteration) == ("repeat state", None)
    assert found["0/#/a"].counts.completed == 11
    assert (show_step(store, f"{run}/0").name, show_step(store, f"{run}/0").outputs) == (
        "repeat last",
        {"m": 20},
    )
    assert [row.path for row in run_timeline(store, run).rows][:2] == ["0/#/a", "0/#/u"]


def test_the_tree_says_how_far_a_repeat_is(store: PersistenceAPI) -> None:
    run = begin(store, LOOP, {"n": 30}, Double=double)
    (loop,) = show(store, find(store, run)).root.children
    assert loop.name == "repeat last, iteration 20"
    assert [child.name for child in loop.children] == ["a", "u", "b"]
    assert [child.name for child in loop.children[1].children] == ["repeat state"]
    over = begin(store, LOOP, {"n": 15}, Double=double)
    (loop,) = show(store, find(store, over)).root.children
    assert loop.name == "repeat last, 15 iterations"


def test_elements_are_found_by_value_and_failed_ones_come_first(store: PersistenceAPI) -> None:
    source = EACH.replace(" catch { yield Double(m = 0) }", "")
    run = begin(store, source, {"ns": [10, 11, 120, 13, 121]}, Double=odd_ones_fail)
    place = "0/all/0/#/one"
    every = show_place(store, run, place).elements
    assert [(each.state, each.values) for each in every] == [
        ("failed", {"n": 11}),
        ("failed", {"n": 13}),
        ("failed", {"n": 121}),
        ("completed", {"n": 10}),
        ("completed", {"n": 120}),
    ]
    found = show_place(store, run, place, text="12", limit=1)
    assert ([each.values for each in found.elements], found.counts.total) == ([{"n": 121}], 5)
    rest = show_place(store, run, place, text="12", limit=1, after=found.next)
    assert ([each.values for each in rest.elements], rest.next) == ([{"n": 120}], 0)
    assert show_place(store, run, place, text="240").elements[0].values == {"n": 120}
    by_error = show_place(store, run, place, text="11 IS ODD", state="failed")
    assert [each.values for each in by_error.elements] == [{"n": 11}]
    assert show_place(store, run, place, text="nothing").elements == []


def test_what_stands_in_a_foreach_is_in_the_order_of_its_elements_with_values(store: PersistenceAPI) -> None:
    source = EACH.replace(" catch { yield Double(m = 0) }", "")
    run = begin(store, source, {"ns": [2, 4, 5, *range(100, 124, 2)]}, Double=odd_ones_fail)
    inside = show_step(store, f"{run}/0/all").inside
    assert [each.values["n"] for each in inside] == [5, 2, 4, *range(100, 124, 2)]
    assert {each.place for each in inside} == {"0/all/0/#/one"}


def test_a_narrow_graph_has_one_box_below_the_other(store: PersistenceAPI) -> None:
    body = "".join(f"        s{number} = Double(n = $.n)\n" for number in range(4))
    head = "namespace t {\n event facet Double(n: Long) => (m: Long)\n workflow W(n: Long) andThen {\n"
    run = begin(store, f"{head}{body} }}\n}}")
    wide, narrow = run_graph(store, run), run_graph(store, run, narrow=True)
    assert {node.y for node in wide.nodes} == {0.0}
    assert {node.x for node in narrow.nodes} == {0.0}
    assert len({node.y for node in narrow.nodes}) == 4
