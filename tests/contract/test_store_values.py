"""Values: plain JSON data comes back exactly as it was; anything else is refused, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_records import RUN, a_step, a_step_with, stored_step

from afl.kernel.errors import PayloadError
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import StepId

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
    found = stored_step(store, a_step_with(value))
    for came in (found.attributes.params["v"].value, found.attributes.returns["v"].value):
        assert came == value
        assert type(came) is type(value)
        assert repr(came) == repr(value)  # -0.0 and 0.0, 1 and True


@pytest.mark.parametrize("name", ["", "a.b", "$x", "nul\x00", "%", "%2E", "日本", "name", "value"])
def test_names_of_attributes_come_back_as_they_were(store: PersistenceAPI, name: str) -> None:
    found = stored_step(store, a_step_with(1, name))
    assert list(found.attributes.params) == [name]
    assert found.attributes.returns[name].name == name


def test_names_that_look_alike_when_escaped_stay_apart(store: PersistenceAPI) -> None:
    step = a_step()
    for number, name in enumerate([".", "%2E", "%252E", ""]):
        step.set_attribute(name, number)
    assert stored_step(store, step).attributes == step.attributes


def test_a_deep_value_comes_back(store: PersistenceAPI) -> None:
    value: Any = "bottom"
    for _ in range(60):
        value = {"down": [value]}
    assert stored_step(store, a_step_with(value)).get_attribute("v") == value


def test_a_large_value_comes_back(store: PersistenceAPI) -> None:
    value = list(range(500_000))
    assert stored_step(store, a_step_with(value)).get_attribute("v") == value


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_values, name=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_plain_value_comes_back(store: PersistenceAPI, value: Any, name: str) -> None:
    found = stored_step(store, a_step_with(value, name))
    assert found.attributes == a_step_with(value, name).attributes


@pytest.mark.parametrize(
    "value",
    [object(), "\ud800", "x" * (8 * 1024 * 1024), {"a": [object()]}, float("nan"), [float("inf")]],
    ids=["object", "lone surrogate", "over 8 MiB", "nested object", "nan", "infinity"],
)
def test_what_is_no_plain_data_or_too_large_is_refused_and_changes_nothing(
    store: PersistenceAPI, value: Any
) -> None:
    before = stored_step(store, a_step_with("before"))
    with pytest.raises(PayloadError):
        store.save_step(a_step_with(value))
    new = a_step_with(value)
    new.id = StepId("new")
    with pytest.raises(PayloadError):
        store.save_step(new)
    assert store.get_steps_by_workflow(RUN) == [before]
