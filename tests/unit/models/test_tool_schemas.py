"""Tools from functions: the schema of a signature, what a docstring adds, and calls with what a model gives."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import make_dataclass as dataclass_of
from typing import Annotated, Any, Literal, Optional

import pydantic
import pytest

from afl.kernel.errors import InputError
from afl.models import tool_from
from afl.models.result_type import schema_problem


@dataclass
class Place:
    """Somewhere on a map."""

    name: str
    near: list[Place] = field(default_factory=list)


class Point(pydantic.BaseModel):
    x: int
    y: int = 0


class Route(pydantic.BaseModel):
    points: list[Point]


class Socket:
    """Nothing that JSON data could become."""


class Color(enum.Enum):
    RED = "red"


def every_kind(
    text: str,
    number: int,
    share: float,
    yes: bool,
    perhaps: Optional[str],  # noqa: UP045  both ways of writing it
    words: list[str],
    counts: dict[str, int],
    size: Literal["small", "large"],
    color: Color,
    place: Place,
    route: Route,
    untyped: Any,
    most: int = 5,
) -> str:
    """Takes everything."""
    return f"{place.near[0].name} {route.points[0].x + number} {color} {most}"


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = tool_from(function).tool.input_schema["properties"]
    return found


def test_every_kind_of_parameter_has_its_schema() -> None:
    schema = tool_from(every_kind).tool.input_schema
    found = schema["properties"]
    plain = {name: found[name]["type"] for name in ("text", "number", "share", "yes", "words", "counts")}
    assert plain == {
        "text": "string",
        "number": "integer",
        "share": "number",
        "yes": "boolean",
        "words": "array",
        "counts": "object",
    }
    assert found["words"]["items"] == {"type": "string"}
    assert found["counts"]["additionalProperties"] == {"type": "integer"}
    assert found["perhaps"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert found["size"]["enum"] == ["large", "small"]
    assert found["untyped"] == {}
    assert found["most"] == {"type": "integer", "default": 5}
    assert schema["required"] == [name for name in found if name != "most"]
    assert schema["additionalProperties"] is False


def test_classes_are_referred_to_and_their_references_lead_somewhere() -> None:
    schema = tool_from(every_kind).tool.input_schema
    assert schema["properties"]["place"] == {"$ref": "#/$defs/Place"}
    assert schema["$defs"]["Place"]["properties"]["near"]["items"] == {"$ref": "#/$defs/Place"}
    assert schema["$defs"]["Color"]["enum"] == ["red"]
    assert schema["properties"]["route"]["properties"]["points"]["items"] == {"$ref": "#/$defs/Point"}
    assert schema["$defs"]["Point"]["required"] == ["x"]


def test_what_a_model_gives_becomes_what_the_function_takes() -> None:
    given = {
        "text": "t",
        "number": 1,
        "share": 0.5,
        "yes": True,
        "perhaps": None,
        "words": ["a"],
        "counts": {"a": 1},
        "size": "small",
        "color": "red",
        "place": {"name": "A", "near": [{"name": "B"}]},
        "route": {"points": [{"x": 41}]},
        "untyped": [1],
    }
    assert tool_from(every_kind)(given) == "B 42 Color.RED 5"


def test_number_keys_of_a_map_are_numbers_again() -> None:
    def most(votes: dict[int, str]) -> str:
        return votes[max(votes)]

    assert tool_from(most)({"votes": {"9": "b", "10": "a"}}) == "a"


def test_the_docstring_describes_the_tool_and_its_parameters() -> None:
    def search(words: str, most: int = 5) -> list[str]:
        """Search the library.

        It holds everything.

        Args:
            words: what to look for,
                in any language
            most (int): how many

        Returns:
            titles
        """
        return [words] * most

    tool = tool_from(search).tool
    assert (tool.name, tool.description) == ("search", "Search the library.\n\nIt holds everything.")
    assert properties(search)["words"]["description"] == "what to look for, in any language"
    assert properties(search)["most"]["description"] == "how many"


def test_the_other_style_of_docstring_works_too() -> None:
    def weigh(thing: str) -> float:
        """How heavy something is.

        :param thing: what to put on the scales
        :return: kilograms
        """
        return float(len(thing))

    assert tool_from(weigh).tool.description == "How heavy something is."
    assert properties(weigh)["thing"]["description"] == "what to put on the scales"


def test_a_function_without_a_docstring_is_named() -> None:
    def plain() -> None: ...

    tool = tool_from(plain, name="other").tool
    assert (tool.name, tool.description) == ("other", "The function other.")
    assert tool.input_schema["properties"] == {}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("words", "words"),
        ({"a": [1]}, '{"a":[1]}'),
        (None, "null"),
        (Point(x=1), '{"x":1,"y":0}'),
        (Place("A"), None),
    ],
)
def test_what_a_function_gives_goes_back_as_text(answer: object, said: str | None) -> None:
    assert tool_from(lambda: answer, name="give")({}) == (said or '{"name":"A","near":[]}')


def test_an_async_function_is_awaited() -> None:
    async def double(number: int) -> int:
        return 2 * number

    assert tool_from(double)({"number": 21}) == "42"


def test_an_object_that_can_be_called_is_a_tool() -> None:
    class Doubling:
        def __call__(self, number: int) -> int:
            return 2 * number

    tool = tool_from(Doubling(), name="double")
    assert tool.tool.input_schema["properties"] == {"number": {"type": "integer"}}
    assert tool({"number": 4}) == "8"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"words": 1}, "parameter 'words' of look: Expected `str`, got `int`"),
        (
            {"words": "a", "place": {"name": 1}},
            "parameter 'place' of look: Expected `str`, got `int` - at `$.name`",
        ),
        (
            {"words": "a", "route": {"points": [{}]}},
            "parameter 'route' of look: points.0.x: Field required",
        ),
        ({}, "look needs the parameter words"),
        ({"word": "a"}, "look has no parameter 'word'; it has: words, place, route"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_reason(given: dict[str, Any], reason: str) -> None:
    def look(words: str, place: Place | None = None, route: Route | None = None) -> str:
        raise AssertionError("it must not be called")

    with pytest.raises(InputError) as refused:
        tool_from(look)(given)
    assert reason in str(refused.value)


def test_arguments_that_are_no_json_are_refused_as_such() -> None:
    with pytest.raises(InputError, match="the arguments of every_kind are not a JSON object; call it again"):
        tool_from(every_kind)({"INVALID_JSON": '{"at": '})


class Listed(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        return {"Rome": "rome"}[name]


@dataclass
class Half:
    of: int

    def __post_init__(self) -> None:
        self.share = self.of / 0


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"listed": {"name": "Oslo"}}, "parameter 'listed' of go: KeyError: 'Oslo'"),
        ({"half": {"of": 1}}, "parameter 'half' of go: ZeroDivisionError: division by zero"),
    ],
)
def test_whatever_a_type_raises_is_about_its_parameter(given: dict[str, Any], reason: str) -> None:
    def go(listed: Listed | None = None, half: Half | None = None) -> None: ...

    with pytest.raises(InputError) as refused:
        tool_from(go)(given)
    assert str(refused.value) == reason


class Cash(pydantic.BaseModel):
    kind: Literal["cash"]


class Card(pydantic.BaseModel):
    kind: Literal["card"]
    number: Annotated[str, pydantic.Field(min_length=4)]


@dataclass
class Order:
    tea: str
    bags: Annotated[int, pydantic.Field(ge=1)] = 1


def sell(
    order: Order,
    paid: Cash | Card,
    euros: Annotated[float, pydantic.Field(gt=0, description="what it costs")],
    copies: pydantic.PositiveInt = 1,
) -> str:
    """Sell tea.

    Args:
        paid: how
    """
    return f"{order.bags} {type(paid).__name__} {euros:g} {copies}"


def test_constraints_of_pydantic_are_in_the_schema() -> None:
    found = properties(sell)
    assert found["euros"] == {"type": "number", "exclusiveMinimum": 0, "description": "what it costs"}
    assert found["copies"] == {"type": "integer", "exclusiveMinimum": 0, "default": 1}
    assert found["order"]["properties"]["bags"]["minimum"] == 1
    assert found["paid"]["anyOf"] == [{"$ref": "#/$defs/Cash"}, {"$ref": "#/$defs/Card"}]
    assert found["paid"]["description"] == "how"


def test_a_union_of_models_becomes_the_one_that_fits() -> None:
    given = {"order": {"tea": "green"}, "paid": {"kind": "card", "number": "4111"}, "euros": 3}
    assert tool_from(sell)(given) == "1 Card 3 1"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"euros": 0}, "parameter 'euros' of sell: Input should be greater than 0"),
        ({"copies": -1}, "parameter 'copies' of sell: Input should be greater than 0"),
        (
            {"order": {"tea": "green", "bags": 0}},
            "parameter 'order' of sell: bags: Input should be greater than or equal to 1",
        ),
        ({"paid": {"kind": "cheque"}}, "parameter 'paid' of sell: Cash.kind: Input should be 'cash'"),
    ],
)
def test_what_breaks_a_constraint_of_pydantic_is_refused(given: dict[str, Any], reason: str) -> None:
    fitting = {"order": {"tea": "green"}, "paid": {"kind": "cash"}, "euros": 1.5, "copies": 2}
    with pytest.raises(InputError) as refused:
        tool_from(sell)({**fitting, **given})
    assert str(refused.value).startswith(reason)


def test_a_field_in_the_place_of_a_default_is_refused_with_what_to_write() -> None:
    def pour(cups: int = pydantic.Field(3, ge=1)) -> None: ...

    with pytest.raises(InputError, match=r"tool pour: .* 'cups' .* write cups: Annotated\[\.\.\., Field\("):
        tool_from(pour)


Other = dataclass_of("Place", [("street", str)])
OtherPoint = pydantic.create_model("Point", meters=(float, ...))
OtherRoute = pydantic.create_model("Route", points=(list[OtherPoint], ...))  # type: ignore[valid-type]
PointOfPydantic = pydantic.create_model("Place", zone=(list["str"], ...))


def test_a_model_may_be_the_default_of_a_parameter() -> None:
    def go(to: Point = Point(x=3)) -> str:  # noqa: B008  a value that nothing changes
        return str(to.x)

    assert tool_from(go)({}) == "3"


def test_types_of_one_name_do_not_replace_each_other() -> None:
    def go(a: Place, b: Other, c: Route, d: OtherRoute, e: list[PointOfPydantic]) -> str:  # type: ignore[valid-type]
        return f"{b.street} {c.points[0].x} {d.points[0].meters} {e[0].zone[0]}"  # type: ignore[attr-defined]

    tool = tool_from(go)
    given = {
        "a": {"name": "A", "near": []},
        "b": {"street": "B"},
        "c": {"points": [{"x": 1, "y": 2}]},
        "d": {"points": [{"meters": 0.5}]},
        "e": [{"zone": ["E"]}],
    }
    assert schema_problem(tool.tool.input_schema, given) is None
    assert tool(given) == "B 1 0.5 E"


def test_a_type_that_json_cannot_be_is_refused_when_the_tool_is_made() -> None:
    def listen(at: Socket) -> None: ...

    with pytest.raises(InputError, match="tool listen: parameter 'at' is not JSON data"):
        tool_from(listen)


def test_a_type_that_only_a_function_knows_is_refused() -> None:
    class Here: ...

    def look(at: Here) -> None: ...

    with pytest.raises(
        InputError, match="tool look: its types must be known in the whole module: name 'Here'"
    ):
        tool_from(look)


def test_parameters_without_a_name_are_refused() -> None:
    def many(*words: str) -> None: ...

    with pytest.raises(InputError, match=r"tool many: parameter \*words: 'str' cannot be given by name"):
        tool_from(many)
