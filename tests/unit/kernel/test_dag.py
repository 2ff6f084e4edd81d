"""Dag and Tracker, by example and against a naive model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import tries

from afl.kernel.dag import Change, Dag, NodeState, Tracker, cycles
from afl.kernel.errors import GraphError

DIAMOND = Dag({"top": [], "left": ["top"], "right": ["top"], "bottom": ["left", "right"]})


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """An acyclic graph whose nodes are given in any order."""
    count = draw(st.integers(0, 9))
    names = [f"n{i}" for i in range(count)]
    needs = {
        name: draw(st.lists(st.sampled_from(names[:i]), unique=True) if i else st.just([]))
        for i, name in enumerate(names)
    }
    return {name: needs[name] for name in draw(st.permutations(names))}


@given(graphs())
def test_order_puts_every_node_after_its_dependencies(needs: dict[str, list[str]]) -> None:
    dag = Dag(needs)
    place = {node: i for i, node in enumerate(dag.order)}
    assert sorted(place) == sorted(needs)
    assert all(place[name] < place[node] for node in needs for name in needs[node])


@given(graphs())
def test_dependents_are_the_inverse_of_dependencies(needs: dict[str, list[str]]) -> None:
    dag = Dag(needs)
    for node in needs:
        assert set(dag.dependents(node)) == {name for name in needs if node in needs[name]}


def test_nodes_that_are_free_keep_their_order() -> None:
    assert Dag({"c": [], "a": [], "b": []}).order == ("c", "a", "b")


@pytest.mark.parametrize(
    ("needs", "path"),
    [
        ({"a": ["a"]}, "a -> a"),
        ({"a": ["b"], "b": ["a"]}, "a -> b -> a"),
        ({"tail": ["a"], "a": ["b", "x"], "b": ["c"], "c": ["a"], "x": []}, "a -> b -> c -> a"),
    ],
)
def test_a_cycle_is_shown_as_a_path(needs: dict[str, list[str]], path: str) -> None:
    with pytest.raises(GraphError) as caught:
        Dag(needs)
    assert str(caught.value) == f"dependencies form a cycle: {path}"


def test_there_is_one_cycle_for_each_dependency_that_closes_one() -> None:
    assert list(cycles({"a": ["b", "c"], "b": ["a"], "c": ["a"], "d": ["d", "a"]})) == [
        ["a", "b", "a"],
        ["a", "c", "a"],
        ["d", "d"],
    ]
    assert list(cycles({"a": [], "b": ["a"], "c": ["a", "b"]})) == []
    chain = {str(number): [str(number + 1)] for number in range(5_000)} | {"5000": ["0"]}
    assert [len(path) for path in cycles(chain)] == [5_002]


def test_an_unknown_dependency_names_the_near_one() -> None:
    with pytest.raises(
        GraphError, match="'load' depends on 'extrct', which does not exist; did you mean 'extract'"
    ):
        Dag({"extract": [], "load": ["extrct"]})


def test_an_unknown_node_is_refused() -> None:
    with pytest.raises(GraphError, match="no node 'botom', which does not exist; did you mean 'bottom'"):
        DIAMOND.dependencies("botom")


def test_dependencies_given_as_text_are_refused() -> None:
    with pytest.raises(GraphError, match="expected a list of names"):
        Dag({"a": [], "ab": "a"})


def test_a_dependency_named_twice_counts_once() -> None:
    tracker = Tracker(Dag({"a": [], "b": ["a", "a"]}))
    assert tracker.take() == "a"
    assert tracker.complete("a") == Change(ready=("b",))


def test_a_long_chain_needs_no_recursion() -> None:
    dag = Dag({str(i): [str(i - 1)] if i else [] for i in range(20_000)})
    tracker = Tracker(dag)
    assert tracker.take() == "0"
    assert len(tracker.fail("0").skipped) == 19_999
    assert tracker.finished and not tracker.succeeded


def test_a_fan_in_is_ready_once_and_only_after_all() -> None:
    tracker = Tracker(DIAMOND)
    assert tracker.take() == "top"
    assert tracker.complete("top").ready == ("left", "right")
    tracker.start("right")
    assert tracker.complete("right") == Change()
    tracker.start("left")
    assert tracker.complete("left").ready == ("bottom",)
    assert tracker.ready == ("bottom",)


def test_a_failure_skips_its_dependents_and_no_others() -> None:
    tracker = Tracker(Dag({"a": [], "b": ["a"], "c": ["b"], "other": [], "join": ["c", "other"]}))
    assert tracker.take() == "a"
    assert set(tracker.fail("a").skipped) == {"b", "c", "join"}
    assert tracker.take() == "other"
    assert tracker.complete("other") == Change()
    assert tracker.finished and not tracker.succeeded


def test_an_allowed_failure_lets_dependents_go_on() -> None:
    tracker = Tracker(Dag({"lint": [], "build": ["lint"]}), allow_failure=["lint"])
    assert tracker.take() == "lint"
    assert tracker.fail("lint") == Change(ready=("build",))
    assert tracker.take() == "build"
    tracker.complete("build")
    assert tracker.succeeded


def test_always_runs_after_a_failure_once_everything_before_it_ended() -> None:
    tracker = Tracker(
        Dag(
            {
                "a": [],
                "slow": [],
                "b": ["a"],
                "clean": ["b", "slow"],
                "report": ["clean"],
                "c": ["b", "clean"],
            }
        ),
        always=["clean"],
    )
    assert (tracker.take(), tracker.take()) == ("a", "slow")
    assert tracker.fail("a") == Change(skipped=("b", "c"))
    assert tracker.complete("slow") == Change(ready=("clean",))
    assert tracker.take() == "clean"
    assert tracker.complete("clean") == Change(ready=("report",))


def test_an_empty_graph_is_finished_at_once() -> None:
    tracker = Tracker(Dag({}))
    assert tracker.finished and tracker.succeeded and tracker.take() is None


@pytest.mark.parametrize("verb", ["start", "complete", "fail"])
def test_a_step_out_of_turn_is_refused_and_changes_nothing(verb: str) -> None:
    tracker = Tracker(DIAMOND)
    before = tracker.states()
    with pytest.raises(GraphError, match=f"cannot {verb} 'bottom': it is pending"):
        getattr(tracker, verb)("bottom")
    assert tracker.states() == before


def model_states(
    needs: dict[str, list[str]], outcome: dict[str, Any], allow_failure: set[str], always: set[str]
) -> dict[str, str]:
    """What must hold, written plainly: repeat the rules over all nodes until nothing changes."""
    states = dict.fromkeys(needs, "pending")
    while True:
        before = dict(states)
        for node, names in needs.items():
            passed = [
                states[name] == "completed" or (states[name] == "failed" and name in allow_failure)
                for name in names
            ]
            ended = [states[name] in ("completed", "failed", "skipped") for name in names]
            if node in always:
                states[node] = outcome.get(node, "ready") if all(ended) else "pending"
            elif any(end and not ok for end, ok in zip(ended, passed, strict=True)):
                states[node] = "skipped"
            elif all(passed):
                states[node] = outcome.get(node, "ready")
        if states == before:
            return states


@tries(120, deep=300)
@given(graphs(), st.data())
def test_any_walk_agrees_with_the_naive_model(needs: dict[str, list[str]], data: st.DataObject) -> None:
    subset = st.sets(st.sampled_from(sorted(needs))) if needs else st.just(set[str]())
    allow_failure, always = data.draw(subset, "allow_failure"), data.draw(subset, "always")
    tracker = Tracker(Dag(needs), allow_failure=allow_failure, always=always)
    outcome: dict[str, Any] = {}
    ended: list[str] = []
    announced = list(tracker.ready)
    while not tracker.finished:
        running = [node for node, state in tracker.states().items() if state is NodeState.RUNNING]
        choices = [("start", node) for node in tracker.ready]
        choices += [(verb, node) for node in running for verb in ("complete", "fail")]
        verb, node = data.draw(st.sampled_from(choices), "step")
        if verb == "start":
            tracker.start(node)
            outcome[node] = "running"
        else:
            change = getattr(tracker, verb)(node)
            outcome[node] = {"complete": "completed", "fail": "failed"}[verb]
            ended += [node, *change.skipped]
            announced += change.ready
        assert tracker.states() == model_states(needs, outcome, allow_failure, always)
    assert sorted(ended) == sorted(needs), "each node ends exactly once"
    assert len(announced) == len(set(announced)), "each node becomes ready at most once"
    assert set(announced) == set(outcome), "what became ready ran, and nothing else did"
