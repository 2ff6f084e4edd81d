"""Ids, object types, attribute values and attributes."""

from __future__ import annotations

from uuid import UUID

import pytest

from afl.runtime import types
from afl.runtime.types import AttributeValue, FacetAttributes, ObjectType, VersionInfo


@pytest.mark.parametrize(
    "make", [types.generate_id, types.step_id, types.block_id, types.event_id, types.workflow_id]
)
def test_ids_are_uuids_and_never_equal(make: object) -> None:
    assert callable(make)
    made = [make() for _ in range(50)]
    assert len(set(made)) == 50
    assert all(str(UUID(text)) == text for text in made)


@pytest.mark.parametrize("name", ["StepId", "BlockId", "EventId", "WorkflowId", "StatementId"])
def test_id_types_are_text(name: str) -> None:
    assert getattr(types, name)("x") == "x"


def test_object_type_names() -> None:
    assert ObjectType.VARIABLE_ASSIGNMENT == "VariableAssignment"
    assert ObjectType.YIELD_ASSIGNMENT == "YieldAssignment"
    assert (ObjectType.WORKFLOW, ObjectType.FACET, ObjectType.BLOCK) == ("Workflow", "Facet", "Block")
    assert (ObjectType.AND_THEN, ObjectType.AND_MAP, ObjectType.AND_MATCH) == (
        "AndThen",
        "AndMap",
        "AndMatch",
    )
    assert (ObjectType.BEFORE, ObjectType.AFTER) == ("Before", "After")
    assert (ObjectType.AND_WHEN, ObjectType.AND_CATCH) == ("AndWhen", "AndCatch")
    assert (ObjectType.SYS_LOG, ObjectType.SYS_ASSERT) == ("SysLog", "SysAssert")
    assert ObjectType.SCHEMA_INSTANTIATION == "SchemaInstantiation"


@pytest.mark.parametrize("kind", ["AndThen", "AndMap", "AndMatch", "Block"])
def test_blocks_are_no_statements(kind: str) -> None:
    assert ObjectType.is_block(kind)
    assert not ObjectType.is_statement(kind)


@pytest.mark.parametrize("kind", ["VariableAssignment", "YieldAssignment"])
def test_statements_are_no_blocks(kind: str) -> None:
    assert ObjectType.is_statement(kind)
    assert not ObjectType.is_block(kind)


@pytest.mark.parametrize("kind", ["Workflow", "Facet", "Before", "After", "nonsense"])
def test_the_rest_is_neither(kind: str) -> None:
    assert not ObjectType.is_block(kind)
    assert not ObjectType.is_statement(kind)


def test_version_defaults() -> None:
    assert VersionInfo() == VersionInfo("1.0", "1.0", "0.1.0")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (True, "Boolean"),
        (1, "Long"),
        (1.5, "Double"),
        ("x", "String"),
        ([1], "List"),
        ({"a": 1}, "Map"),
        (None, "Any"),
    ],
)
def test_type_hint_is_inferred(value: object, hint: str) -> None:
    assert AttributeValue("a", value).type_hint == hint


def test_a_given_type_hint_is_kept() -> None:
    assert AttributeValue("a", 1, "Int").type_hint == "Int"


def test_attributes_are_absent_until_set() -> None:
    attributes = FacetAttributes()
    assert attributes.get_param("a") is None
    assert attributes.get_return("a") is None
    attributes.set_param("a", 1)
    attributes.set_return("a", "two", "Text")
    assert (attributes.get_param("a"), attributes.get_return("a")) == (1, "two")
    assert attributes.params["a"] == AttributeValue("a", 1, "Long")
    assert attributes.returns["a"].type_hint == "Text"


def test_merge_keeps_params_and_takes_over_returns() -> None:
    mine, other = FacetAttributes(), FacetAttributes()
    mine.set_param("a", 1)
    mine.set_return("r", 1)
    other.set_param("a", 2)
    other.set_param("b", 2)
    other.set_return("r", 2)
    mine.merge(other)
    assert (mine.get_param("a"), mine.get_param("b"), mine.get_return("r")) == (1, 2, 2)


def test_two_attributes_share_nothing() -> None:
    first, second = FacetAttributes(), FacetAttributes()
    first.set_param("a", 1)
    assert second.params == {}
