"""Steps: what goes in comes out, as a copy, in the order in which it first came."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_records import RUN, a_step

from afl.kernel.errors import PayloadError
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.states import StepState
from afl.runtime.step import BlockProgress, StepDefinition
from afl.runtime.types import BlockId, ObjectType, StatementId, StepId, VersionInfo, WorkflowId

NESTED = {"list": [1, [2.5, {"deep": [None, True, "ü"]}], {}], "empty": [], "text": 'a"\\\n\t'}
ODD_KEYS = {"": 1, "a.b": 2, "$set": {"$": 3}, "nul\x00key": 4, "日本": 5, "%2E": 6, "_id": 7}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def stored(store: PersistenceAPI, step: StepDefinition) -> StepDefinition:
    store.save_step(step)
    found = store.get_step(step.id)
    assert found is not None
    return found


def with_value(value: Any, name: str = "v") -> StepDefinition:
    step = a_step()
    step.set_attribute(name, value)
    step.set_attribute(name, value, is_return=True)
    return step


def ids(steps: list[StepDefinition]) -> list[str]:
    return [step.id for step in steps]


def test_a_plain_step_comes_back(store: PersistenceAPI) -> None:
    assert stored(store, a_step()) == a_step()


def test_every_field_of_a_step_comes_back(store: PersistenceAPI) -> None:
    step = a_step(
        state=StepState.STATEMENT_BLOCKS_CONTINUE,
        object_type=ObjectType.AND_THEN,
        statement_id=StatementId("statement"),
        container_type=ObjectType.WORKFLOW,
        container_id=StepId("container"),
        block_id=BlockId("block"),
        root_id=StepId("root"),
        facet_name="ns.Fäcet",
        version=VersionInfo("2.0", "3.0", "4.0"),
        timestamp=1234,
        progress=BlockProgress(9, 8, 7, 6, 5),
        started=11,
        ended=22,
    )
    step.attributes.set_param("n", 1, "Int")
    step.attributes.set_param("nothing", None)
    step.attributes.set_param("typed nothing", None, "String")
    step.attributes.set_return("out", [1], "[Long]")
    assert stored(store, step) == step


def test_a_request_to_go_on_comes_back(store: PersistenceAPI) -> None:
    """It decides whether a step that waits may go on, so it must survive the process that made it."""
    step = a_step(state=StepState.EVENT_TRANSMIT)
    step.request_state_change(True)
    assert stored(store, step).is_requesting_state_change
    step.request_state_change(False)
    assert not stored(store, step).is_requesting_state_change


@pytest.mark.parametrize(
    "failure",
    [
        StepFailure("no such file"),
        StepFailure("bäd\x00 text", "ValueError", "a.b", "ns.F", 3, 4, "file.afl"),
    ],
)
def test_a_failure_comes_back_with_its_place(store: PersistenceAPI, failure: StepFailure) -> None:
    step = a_step()
    step.mark_error(failure)
    found = stored(store, step)
    assert found.is_error
    error = found.transition.error
    assert isinstance(error, StepFailure)
    assert error.to_dict() == failure.to_dict()


def test_another_error_comes_back_as_a_failure_of_that_name(store: PersistenceAPI) -> None:
    step = a_step()
    step.mark_error(KeyError("missing"))
    error = stored(store, step).transition.error
    assert isinstance(error, StepFailure)
    assert (error.message, error.error_type) == ("'missing'", "KeyError")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        2**63 - 1,
        -(2**63),
        2**64 - 1,
        -(2**70),
        5.0,
        -0.0,
        1e308,
        0.1,
        "",
        "nul \x00 inside",
        "\x00",
        "grüße 😀 \u2028",
        "$literal",
        [],
        {},
        [[]],
        NESTED,
        ODD_KEYS,
        [ODD_KEYS],
    ],
    ids=repr,
)
def test_values_come_back_as_they_were(store: PersistenceAPI, value: Any) -> None:
    found = stored(store, with_value(value))
    for came in (found.attributes.params["v"].value, found.attributes.returns["v"].value):
        assert came == value
        assert type(came) is type(value)
        assert repr(came) == repr(value)  # -0.0 and 0.0, 1 and True


@pytest.mark.parametrize("name", ["", "a.b", "$x", "nul\x00", "%", "%2E", "日本", "name", "value"])
def test_names_of_attributes_come_back_as_they_were(store: PersistenceAPI, name: str) -> None:
    found = stored(store, with_value(1, name))
    assert list(found.attributes.params) == [name]
    assert found.attributes.returns[name].name == name


def test_names_that_look_alike_when_escaped_stay_apart(store: PersistenceAPI) -> None:
    step = a_step()
    for number, name in enumerate([".", "%2E", "%252E", ""]):
        step.set_attribute(name, number)
    assert stored(store, step).attributes == step.attributes


def test_a_deep_value_comes_back(store: PersistenceAPI) -> None:
    value: Any = "bottom"
    for _ in range(60):
        value = {"down": [value]}
    assert stored(store, with_value(value)).get_attribute("v") == value


def test_a_large_value_comes_back(store: PersistenceAPI) -> None:
    value = list(range(500_000))
    assert stored(store, with_value(value)).get_attribute("v") == value


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_values, name=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_plain_value_comes_back(store: PersistenceAPI, value: Any, name: str) -> None:
    found = stored(store, with_value(value, name))
    assert found.attributes == with_value(value, name).attributes


@pytest.mark.parametrize(
    "value",
    [object(), "\ud800", "x" * (8 * 1024 * 1024), {"a": [object()]}, float("nan"), [float("inf")]],
    ids=["object", "lone surrogate", "over 8 MiB", "nested object", "nan", "infinity"],
)
def test_what_is_no_plain_data_or_too_large_is_refused_and_changes_nothing(
    store: PersistenceAPI, value: Any
) -> None:
    before = stored(store, with_value("before"))
    with pytest.raises(PayloadError):
        store.save_step(with_value(value))
    new = with_value(value)
    new.id = StepId("new")
    with pytest.raises(PayloadError):
        store.save_step(new)
    assert store.get_steps_by_workflow(RUN) == [before]


def test_copies_go_in_and_copies_come_out(store: PersistenceAPI) -> None:
    step = with_value({"list": [1]})
    store.save_step(step)
    step.attributes.params["v"].value["list"].append(2)
    step.change_state(StepState.STATEMENT_END)
    first = store.get_step(step.id)
    assert first is not None
    first.attributes.params["v"].value["list"].append(3)
    first.set_attribute("other", 1)
    second = store.get_step(step.id)
    assert second is not None
    assert second.state == StepState.CREATED
    assert {name: each.value for name, each in second.attributes.params.items()} == {"v": {"list": [1]}}


def test_saving_again_replaces_every_field(store: PersistenceAPI) -> None:
    old = with_value(1)
    old.progress, old.timestamp = BlockProgress(1), 5
    old.mark_error(StepFailure("gone"))
    store.save_step(old)
    new = a_step(
        "s",
        "run-2",
        StepState.STATEMENT_END,
        object_type=ObjectType.BLOCK,
        block_id=BlockId("b"),
        facet_name="G",
    )
    assert stored(store, new) == new
    assert store.get_steps_by_workflow(RUN) == []


def test_a_step_that_is_not_there(store: PersistenceAPI) -> None:
    missing = StepId("missing")
    assert store.get_step(missing) is None
    assert store.get_steps([missing]) == []
    assert store.get_workflow_root(RUN) is None
    assert store.get_steps_by_block(missing) == []


def test_several_steps_at_once(store: PersistenceAPI) -> None:
    for number in range(5):
        store.save_step(a_step(f"s{number}"))
    found = store.get_steps([StepId("s3"), StepId("missing"), StepId("s0")])
    assert sorted(ids(found)) == ["s0", "s3"]
    assert store.get_steps([]) == []
    many = [StepId(f"s{number}") for number in range(5000)]
    assert sorted(ids(store.get_steps(many))) == ["s0", "s1", "s2", "s3", "s4"]


def test_open_steps_are_those_that_are_not_over(store: PersistenceAPI) -> None:
    for number, state in enumerate(
        [
            StepState.CREATED,
            StepState.STATEMENT_COMPLETE,
            StepState.EVENT_TRANSMIT,
            StepState.STATEMENT_ERROR,
            StepState.STATEMENT_END,
        ]
    ):
        store.save_step(a_step(f"s{number}", state=state))
    store.save_step(a_step("other", "run-2"))
    assert sorted(ids(store.get_open_steps(RUN))) == ["s0", "s2", "s4"]


def test_steps_are_found_by_where_they_stand(store: PersistenceAPI) -> None:
    root = a_step("root", object_type=ObjectType.WORKFLOW, state=StepState.STATEMENT_BLOCKS_CONTINUE)
    block = a_step(
        "block", object_type=ObjectType.AND_THEN, container_id=StepId("root"), root_id=StepId("root")
    )
    statement = a_step(
        "statement",
        container_id=StepId("root"),
        root_id=StepId("root"),
        block_id=BlockId("block"),
        statement_id=StatementId("a"),
    )
    loose = a_step("loose", "run-2", statement_id=StatementId("b"), container_id=StepId("elsewhere"))
    for step in (root, block, statement, loose):
        store.save_step(step)
    assert store.get_workflow_root(RUN) == root
    assert store.get_workflow_root(WorkflowId("run-2")) is None
    assert store.get_steps_by_block(BlockId("block")) == [statement]
    assert sorted(ids(store.get_steps_by_container(StepId("root")))) == ["block", "statement"]
    assert store.get_blocks_by_step(StepId("root")) == [block]
    assert store.get_steps_by_state(StepState.STATEMENT_BLOCKS_CONTINUE) == [root]
    assert sorted(ids(store.get_steps_by_state(StepState.CREATED))) == ["block", "loose", "statement"]
    assert store.step_exists("a", BlockId("block"))
    assert not store.step_exists("a", None)
    assert not store.step_exists("b", BlockId("block"))
    assert store.step_exists("b", None)


def test_lists_come_in_the_order_in_which_the_steps_were_first_stored(store: PersistenceAPI) -> None:
    names = [f"s{(7 * number) % 10}" for number in range(10)]
    place: dict[str, Any] = {"block_id": BlockId("b"), "container_id": StepId("c"), "root_id": StepId("r")}
    for name in names:
        store.save_step(a_step(name, **place))
    for name in names[3:6]:
        store.save_step(a_step(name, facet_name="again", **place))
    assert ids(store.get_steps_by_workflow(RUN)) == names
    assert ids(store.get_steps_by_block(BlockId("b"))) == names
    assert ids(store.get_steps_by_container(StepId("c"))) == names
    assert ids(store.get_steps_by_state(StepState.CREATED)) == names
    assert ids(store.get_open_steps(RUN)) == names
