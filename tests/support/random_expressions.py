"""Random expressions by type: literals, references, operators, conditional expressions, functions, comprehensions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import TypeVar

from support.case import Names

T = TypeVar("T")
TYPES = ("Long", "String", "Boolean", "[Long]")
_SLOT = re.compile(r"<(@|[^<>@ ]+)>")

# `<Long>` stands for an expression of that type, `<@>` for a variable of its own. The first of each are the usual ones.
_FORMS: dict[str, list[str]] = {
    "Long": [
        "(<Long> + <Long>)",
        "(<Long> - <Long>)",
        "(<Long> * <Long>)",
        "(<Long> % <Long>)",
        "(<Boolean> ? <Long> : <Long>)",
        "len(<String>)",
        "len(<[Long]>)",
        "sum(<[Long]>)",
        "max(<[Long]> ++ [<Long>])",
        "min(<[Long]>)",
        "first(<[Long]>, <Long>)",
        "last(<[Long]>, <Long>)",
        "abs(<Long> - 5)",
        "floor(<Long> / 3)",
        "ceil(<Long> / <Long>)",
        "floor(round(<Long> / 4))",
        "floor(number(string(<Long>)))",
        "coalesce(null, <Long>)",
        'len(split(<String>, "b"))',
        "[7, <Long>][<Long> % 3]",
        'floor(timeBetween("2026-01-31T10:00:00Z", "2026-01-31T12:30:00+01:00", "minutes"))',
    ],
    "String": [
        "(<String> ++ <Long>)",
        "(<String> ++ <String>)",
        "(<String> ++ <Boolean>)",
        "(<Boolean> ? <String> : <String>)",
        "upper(<String>)",
        "lower(<String>)",
        'trim(<String> ++ " ")',
        "join(<[Long]>, <String>)",
        'replace(<String>, "a", <String>)',
        'format("{} {1}{{}}", <String>, <Long>)',
        "string(<[Long]>)",
        "string(round(<Long> / 4, 1))",
        "slice(<String>, <Long> - 2)",
        "coalesce(<String>, <String>)",
        'first(split(<String>, "c"))',
        'join(keys(merge(#{a: <Long>}, #{b: <Long>})), "+")',
        'addTime("2026-01-31T10:00:00Z", <Long> % 50, "hours")',
        'addTime("2028-02-28", <Long> % 3, "days")',
    ],
    "[Long]": [
        "(<[Long]> ++ [<Long>])",
        "[<@> + <Long> for <@> in <[Long]> if <@> < <Long>]",
        "[<@>.value for <@> in #{a: <Long>, b: <Long>} if <@>.key not in [<String>]]",
        "(<Boolean> ? <[Long]> : <[Long]>)",
        "range(<Long> % 4)",
        "range(1, <Long> % 9, 3)",
        "sort(<[Long]>)",
        "reverse(<[Long]>)",
        "distinct(<[Long]> ++ <[Long]>)",
        "flatten([<[Long]>, [<Long>]])",
        "slice(<[Long]>, 0, 2)",
        "values(#{a: <Long>, b: 1})",
    ],
    "Boolean": [
        "(<Long> < <Long>)",
        "(<Long> >= <Long>)",
        "(<Boolean> && <Boolean>)",
        "(<Boolean> || !<Boolean>)",
        "(<String> == <String>)",
        "(<[Long]> != <[Long]>)",
        "(<Long> in <[Long]>)",
        "(<Long> not in <[Long]>)",
        "(<[Long]> contains <Long>)",
        "contains(<String>, <String>)",
        "(<String> startsWith <String>)",
        "(<String> endsWith <String>)",
        "(<Boolean> ? <Boolean> : <Boolean>)",
    ],
}


class Expressions:
    """Writes expressions. Each choice is one of the drawn bytes, so that a failing program shrinks."""

    def __init__(self, choices: bytes) -> None:
        self._choices = iter(choices)
        self._variables = count()

    def number(self, low: int, high: int) -> int:
        return low + next(self._choices, 0) % (high - low + 1)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def rarely(self, times: int = 4) -> bool:
        return self.number(0, times - 1) == times - 1

    def literal(self, kind: str) -> str:
        if kind == "Long":
            return str(self.number(0, 9))
        if kind == "Boolean":
            return self.pick(["true", "false"])
        if kind == "[Long]":
            return "[" + ", ".join(str(self.number(0, 9)) for _ in range(self.number(0, 3))) + "]"
        return f'"{self.pick(["", "a", "bc", "é"])}"'

    def expression(self, kind: str, names: Names, depth: int = 0) -> str:
        known = names.known.get(kind, [])
        form = self.number(0, 3)
        if form <= 1 and known:
            return self.pick(known)
        if form == 2 and depth < 2:
            usual = self.rarely(2)
            return self._filled(self.pick(_FORMS[kind][:4] if usual else _FORMS[kind]), names, depth + 1)
        return self.literal(kind)

    def _filled(self, form: str, names: Names, depth: int) -> str:
        variable = f"w{next(self._variables)}"

        def fill(slot: re.Match[str]) -> str:
            return variable if slot[1] == "@" else self.expression(slot[1], names, depth)

        return _SLOT.sub(fill, form)

    def arguments(self, slots: dict[str, str], names: Names, optional: frozenset[str] = frozenset()) -> str:
        given = [name for name in slots if name not in optional or self.rarely(2)]
        return ", ".join(f"{name} = {self.expression(slots[name], names)}" for name in given)
