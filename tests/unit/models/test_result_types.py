"""Types of results: their schema, what is wrong with an answer, the value."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, field_validator

from afl.kernel.errors import InputError
from afl.models.result_type import ResultType, result_type, schema_problem


class Line(BaseModel):
    """One line of an invoice."""

    item: str
    cents: int = Field(gt=0, description="what it costs")


class Invoice(BaseModel):
    customer: str = Field(alias="for")
    due: datetime.date
    lines: list[Line]

    @field_validator("customer")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("a customer has a name")
        return value


@dataclass
class Point:
    x: int
    y: int = 0


class Place(TypedDict):
    name: str
    meters: int


class Floors(TypedDict):
    names: dict[int, str]


GOOD = {"for": "Ada", "due": "2026-11-17", "lines": [{"item": "tea", "cents": 300}]}


def test_a_pydantic_model() -> None:
    kind: ResultType[Invoice] = result_type(Invoice)
    assert kind.name == "Invoice"
    assert kind.schema["required"] == ["for", "due", "lines"]
    assert kind.schema["$defs"]["Line"]["properties"]["cents"]["description"] == "what it costs"
    assert kind.data(GOOD) == GOOD
    value = kind.value(GOOD)
    assert (value.customer, value.due, value.lines[0].cents) == ("Ada", datetime.date(2026, 11, 17), 300)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"due": "soon"}, "due: Input should be a valid date"),
        ({"lines": [{"item": "tea", "cents": 0}]}, r"lines\.0\.cents: Input should be greater than 0"),
        ({"for": " "}, "for: Value error, a customer has a name"),
        ({"for": 1, "due": None}, "for: .*; due: "),
    ],
)
def test_all_that_is_wrong_is_told(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        result_type(Invoice).data(GOOD | changed)


@pytest.mark.parametrize(
    ("kind", "given", "data", "value"),
    [
        (Point, {"x": 1}, {"x": 1, "y": 0}, Point(1, 0)),
        (Place, {"name": "Oslo", "meters": 3}, {"name": "Oslo", "meters": 3}, {"name": "Oslo", "meters": 3}),
        (list[Point], [{"x": 1, "y": 2}], [{"x": 1, "y": 2}], [Point(1, 2)]),
        (Floors, {"names": {"1": "a"}}, {"names": {"1": "a"}}, {"names": {1: "a"}}),
        (dict[int, str], {"1": "a"}, {"1": "a"}, {1: "a"}),
        (int, 7, 7, 7),
        (Point | None, None, None, None),
    ],
    ids=["dataclass", "typed-dict", "list", "number-keys", "map", "int", "union"],
)
def test_other_types(kind: Any, given: Any, data: Any, value: Any) -> None:
    found = result_type(kind)
    assert (found.data(given), found.value(data)) == (data, value)
    assert schema_problem(found.schema, given) is None


@pytest.mark.parametrize(("kind", "given"), [(Point, {"x": "far"}), (Place, {"name": "Oslo"}), (int, "many")])
def test_what_does_not_fit(kind: Any, given: Any) -> None:
    with pytest.raises(InputError):
        result_type(kind).data(given)


class Known(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def _known(cls, value: str) -> str:
        return {"Oslo": "oslo"}[value]


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [(Known, {"name": "Rome"}, "KeyError: 'Rome'"), (float, "NaN", "it holds NaN or an infinity")],
)
def test_what_cannot_be_stored_or_checked_is_told(kind: Any, given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        result_type(kind).data(given)


def test_a_schema_alone_tells_each_place() -> None:
    kind = result_type(result_type(Invoice).titled)
    assert kind.name == "Invoice"
    assert kind.value(GOOD) == GOOD
    said = r"\$\.due: None is not of type 'string'; \$\.lines\[0\]: 'cents' is a required property"
    with pytest.raises(InputError, match=said):
        kind.data(GOOD | {"due": None, "lines": [{"item": "tea"}]})


def test_the_same_type_has_the_same_key_in_every_process() -> None:
    assert result_type(Invoice).key == result_type(result_type(Invoice).titled).key
    assert result_type(Invoice).key != result_type(Line).key


def test_without_jsonschema_the_names_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jsonschema", None)
    schema = result_type(Place).schema
    assert schema_problem(schema, {"name": 1, "meters": 2}) is None
    assert schema_problem(schema, {"name": 1}) == "it lacks meters"
    assert schema_problem(schema, 7) == "it lacks meters, name"


@pytest.mark.parametrize(
    ("schema", "place"),
    [({"type": "nope"}, r"\$\.type"), ({"type": "object", "required": 5}, r"\$\.required")],
)
def test_what_is_no_json_schema(schema: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError, match=f"no JSON schema: {place}: "):
        result_type(schema)


@pytest.mark.parametrize(
    ("kind", "fits", "fits_not"),
    [
        (datetime.date, "2026-03-01", "tomorrow"),
        (datetime.datetime, "2026-03-01T09:30:00Z", "2026-03-01T25:00:00Z"),
        (datetime.datetime, "2026-03-01T09:30:00", "at nine"),
        (datetime.time, "09:30:00", "nine"),
        (datetime.timedelta, "PT5M", "5 minutes"),
        (UUID, "12345678-1234-5678-1234-567812345678", "1234"),
    ],
)
def test_dates_and_the_like_are_checked_by_the_schema(kind: Any, fits: str, fits_not: str) -> None:
    schema = result_type(kind).schema
    assert schema_problem(schema, fits) is None
    assert schema_problem(schema, fits_not) == f"$: {fits_not!r} is not a {schema['format']!r}"
    assert schema_problem({"format": "date"}, 7) is None  # a format says something of texts only


def test_a_schema_that_refers_to_elsewhere_is_not_loaded(tmp_path: Path) -> None:
    elsewhere = tmp_path / "schema.json"
    elsewhere.write_text('{"type": "integer"}')
    with pytest.raises(InputError, match=r"the schema cannot be used: .*schema\.json"):
        schema_problem({"properties": {"n": {"$ref": elsewhere.as_uri()}}}, {"n": "many"})


@pytest.mark.parametrize(
    "part", [{"$ref": "#/$defs/none"}, {"type": "nope"}, {"pattern": "("}, {"$ref": "#"}]
)
def test_a_schema_that_cannot_be_used_is_told(part: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="the schema cannot be used: "):
        schema_problem({"allOf": [part]}, "many")


def test_what_has_no_schema() -> None:
    with pytest.raises(InputError, match="a result cannot be a"):
        result_type(object())
