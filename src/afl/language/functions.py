"""The functions of expressions: their names, parameters, and the types of their results.

What they compute is in `afl.runtime.program.functions`. All of them are pure: a run that is evaluated again gets the
same values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afl.language.types import (
    BOOLEAN,
    DOUBLE,
    LONG,
    MAP,
    STRING,
    UNKNOWN,
    Type,
    array_of,
    common,
)

Result = Callable[[list[Type]], Type]

TEXT, NUMBER, LIST, MAPPING, SIZED, ANY = (
    "a String",
    "a number",
    "a list",
    "a map",
    "a String, list or map",
    "any",
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function; parameters after the first `required` may be left out, the last of a variadic one repeated."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    result: Result
    summary: str
    required: int
    variadic: bool = False

    @property
    def signature(self) -> str:
        """As documentation shows it."""
        names = [name for name, _ in self.parameters]
        shown = names[: self.required] + [f"{name}?" for name in names[self.required :]]
        if self.variadic:
            shown[-1] = f"{names[-1]}..."
        return f"{self.name}({', '.join(shown)})"

    def kind(self, position: int) -> str | None:
        """What the argument at a position must be; None if there is no such parameter."""
        if position < len(self.parameters):
            return self.parameters[position][1]
        return self.parameters[-1][1] if self.variadic else None


def fits(argument: Type, kind: str) -> bool:
    """Whether an argument of this type may be given where a parameter of that kind is."""
    if argument.is_open or kind == ANY:
        return True
    is_map = argument == MAP or argument.is_schema
    return {
        TEXT: argument == STRING,
        NUMBER: argument.is_numeric,
        LIST: argument.is_array,
        MAPPING: is_map,
        SIZED: argument == STRING or argument.is_array or is_map,
    }[kind]


def _always(kind: Type) -> Result:
    return lambda arguments: kind


def _first(arguments: list[Type]) -> Type:
    return arguments[0]


def _element(arguments: list[Type]) -> Type:
    return arguments[0].element or UNKNOWN


def _element_or_given(arguments: list[Type]) -> Type:
    return common([_element(arguments), *arguments[1:]])


def _flattened(arguments: list[Type]) -> Type:
    inner = arguments[0].element
    return inner if inner is not None and inner.is_array else array_of(UNKNOWN)


def _any_of(arguments: list[Type]) -> Type:
    return common(arguments)


def _make(name: str, parameters: str, result: Result, summary: str) -> Function:
    """From `list: a list, field?: a String, more...: any`."""
    pairs, required, variadic = [], 0, False
    for parameter in parameters.split("; "):
        label, _, kind = parameter.partition(": ")
        variadic = label.endswith("...")
        required += not label.endswith(("?", "..."))
        pairs.append((label.rstrip("?."), kind))
    return Function(name, tuple(pairs), result, summary, required, variadic)


FUNCTIONS: dict[str, Function] = {
    each.name: each
    for each in (
        _make("len", f"value: {SIZED}", _always(LONG), "how many characters, elements or keys"),
        _make("upper", f"text: {TEXT}", _always(STRING), "in capital letters"),
        _make("lower", f"text: {TEXT}", _always(STRING), "in small letters"),
        _make("trim", f"text: {TEXT}", _always(STRING), "without white space at its ends"),
        _make(
            "split",
            f"text: {TEXT}; separator: {TEXT}",
            _always(array_of(STRING)),
            "the parts between separators",
        ),
        _make("join", f"list: {LIST}; separator: {TEXT}", _always(STRING), "the elements as one text"),
        _make(
            "replace",
            f"text: {TEXT}; old: {TEXT}; new: {TEXT}",
            _always(STRING),
            "with every `old` replaced by `new`",
        ),
        _make("contains", f"value: {SIZED}; item: {ANY}", _always(BOOLEAN), "as the operator `contains`"),
        _make(
            "format",
            f"template: {TEXT}; values...: {ANY}",
            _always(STRING),
            "`{}`, `{0}` and `{:.2f}` of the template replaced by values",
        ),
        _make("string", f"value: {ANY}", _always(STRING), "as text; JSON for lists and maps"),
        _make("number", f"text: {TEXT}", _always(DOUBLE), "the number that a text says"),
        _make(
            "range",
            f"start: {NUMBER}; end?: {NUMBER}; step?: {NUMBER}",
            _always(array_of(LONG)),
            "whole numbers from `start` (or 0) up to, and without, `end`",
        ),
        _make(
            "slice",
            f"value: {SIZED}; start: {NUMBER}; end?: {NUMBER}",
            _first,
            "a part of a text or list; negative numbers count from the end",
        ),
        _make(
            "sort",
            f"list: {LIST}; field?: {TEXT}",
            _first,
            "in ascending order, of the field if one is named",
        ),
        _make("reverse", f"list: {LIST}", _first, "in the opposite order"),
        _make("distinct", f"list: {LIST}", _first, "without repetitions"),
        _make("flatten", f"list: {LIST}", _flattened, "the elements of the lists in a list"),
        _make("sum", f"list: {LIST}", _element, "the sum of numbers; 0 for none"),
        _make("min", f"list: {LIST}", _element, "the smallest element"),
        _make("max", f"list: {LIST}", _element, "the largest element"),
        _make(
            "first", f"list: {LIST}; default?: {ANY}", _element_or_given, "the first element, or the default"
        ),
        _make(
            "last", f"list: {LIST}; default?: {ANY}", _element_or_given, "the last element, or the default"
        ),
        _make("keys", f"map: {MAPPING}", _always(array_of(STRING)), "the keys of a map"),
        _make("values", f"map: {MAPPING}", _always(array_of(UNKNOWN)), "the values of a map"),
        _make("merge", f"map: {MAPPING}; others...: {MAPPING}", _always(MAP), "one map; later keys win"),
        _make("abs", f"number: {NUMBER}", _first, "without its sign"),
        _make("floor", f"number: {NUMBER}", _always(LONG), "the whole number at or below"),
        _make("ceil", f"number: {NUMBER}", _always(LONG), "the whole number at or above"),
        _make("round", f"number: {NUMBER}; digits?: {NUMBER}", _always(DOUBLE), "rounded, half to even"),
        _make("coalesce", f"value: {ANY}; others...: {ANY}", _any_of, "the first that is not null, or null"),
        _make(
            "addTime",
            f"time: {TEXT}; amount: {NUMBER}; unit: {TEXT}",
            _always(STRING),
            "an ISO time or date moved by `ms`, `seconds`, `minutes`, `hours`, `days` or `weeks`",
        ),
        _make(
            "timeBetween",
            f"from: {TEXT}; to: {TEXT}; unit: {TEXT}",
            _always(DOUBLE),
            "how much later `to` is, in that unit",
        ),
    )
}
