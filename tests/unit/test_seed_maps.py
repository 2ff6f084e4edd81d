"""The maps of the seeds (`tests/seeds/NNN.toml`): no rule without a test, no signature that differs.

A rule names tests that exist, or an issue that is still open. Signatures, defaults and constants that a seed prints are
compared with the code: what we add may only be keyword-only, or stand at the end with a default.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
SEEDS = tuple(sorted(path.stem for path in (ROOT / "tests" / "seeds").glob("*.toml")))
# Issues whose part of a seed may still be missing. Whoever closes one removes it here.
OPEN_ISSUES: frozenset[str] = frozenset()
_OUR_DICT = re.compile(r"\bdict\[str, Any\]")  # the seeds write `dict` alone


@cache
def seed_map(number: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "tests" / "seeds" / f"{number}.toml").read_text())


def entries(kind: str) -> list[Any]:
    return [
        pytest.param(entry, id=f"{number}:{entry.get('id') or entry['object']}")
        for number in SEEDS
        for entry in seed_map(number)[kind]
    ]


@cache
def named_in(path: str) -> frozenset[str]:
    """Ids of the tests in a file, without parameters; none if there is no such file."""
    file = ROOT / path
    return frozenset(_tests(ast.parse(file.read_text()), "")) if file.is_file() else frozenset()


def _tests(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            yield from _tests(child, f"{prefix}{child.name}::")
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and child.name.startswith("test"):
            yield f"{prefix}{child.name}"


def is_collected(test_id: str) -> bool:
    path, _, name = test_id.partition("::")
    return name.partition("[")[0] in named_in(path)


@pytest.mark.parametrize("rule", entries("rule"))
def test_every_rule_has_a_test_or_waits_for_an_open_issue(rule: dict[str, Any]) -> None:
    assert rule["text"].strip()
    if "issue" in rule:
        assert "tests" not in rule, f"{rule['id']} has tests; drop its issue"
        assert rule["issue"] in OPEN_ISSUES, f"{rule['id']}: {rule['issue']} is closed, so name the tests"
    else:
        missing = [test_id for test_id in rule["tests"] if not is_collected(test_id)]
        assert rule["tests"], f"{rule['id']} names no test"
        assert not missing, f"{rule['id']} names tests that do not exist: {missing}"


@pytest.mark.parametrize("number", SEEDS)
def test_every_section_has_rules_and_every_rule_a_section(number: str) -> None:
    found = seed_map(number)
    assert {rule["section"] for rule in found["rule"]} == set(found["sections"])


@pytest.mark.parametrize("number", SEEDS)
def test_rules_are_named_once(number: str) -> None:
    names = [rule["id"] for rule in seed_map(number)["rule"]]
    assert sorted(names) == sorted(set(names))


def test_an_open_issue_has_something_left_to_show() -> None:
    waiting = {rule.get("issue") for number in SEEDS for rule in seed_map(number)["rule"]} - {None}
    assert waiting == OPEN_ISSUES


def test_the_check_sees_a_test_that_does_not_exist() -> None:
    here = "tests/unit/test_seed_maps.py"
    assert is_collected(f"{here}::test_rules_are_named_once[000]")
    assert not is_collected(f"{here}::test_that_nobody_wrote")
    assert not is_collected("tests/unit/no_such_file.py::test_rules_are_named_once")


def locate(path: str) -> Any:
    """What `module:Name.attribute` means."""
    module, _, names = path.partition(":")
    found: Any = import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


def is_missing(entry: dict[str, Any]) -> bool:
    """Whether the object belongs to an open issue and does not exist yet."""
    if entry.get("issue") not in OPEN_ISSUES:
        return False
    try:
        locate(entry["object"])
    except (ImportError, AttributeError):
        return True
    return False


def plain_type(text: str) -> str:
    """A type as text in which the seed's spelling and ours are the same."""
    unified = re.sub(r"Optional\[(.*)\]$", r"\1 | None", text.strip())
    return _OUR_DICT.sub("dict", unified)


def shape(kind: Any, given: list[inspect.Parameter]) -> list[tuple[Any, ...]]:
    """Name, type and default of parameters; a default that is made anew each time is made once."""
    made = {}
    if dataclasses.is_dataclass(kind):
        made = {
            field.name: field.default_factory()
            for field in dataclasses.fields(kind)
            if field.default_factory is not dataclasses.MISSING
        }
    rows: list[tuple[Any, ...]] = []
    for each in given:
        row: tuple[Any, ...] = (each.name, plain_type(str(each.annotation)))
        if each.default is not inspect.Parameter.empty:
            row = (*row, made.get(each.name, each.default))
        rows.append(row)
    return rows


def model_shape(kind: type[BaseModel], wanted: list[str]) -> list[tuple[Any, ...]]:
    """The same of a model's fields: those of the seed in its order (they go by name), then what we added."""
    fields = kind.model_fields
    rows: list[tuple[Any, ...]] = []
    for name in sorted(fields, key=lambda each: wanted.index(each) if each in wanted else len(wanted)):
        row: tuple[Any, ...] = (name, plain_type(str(kind.__annotations__[name])))
        if not fields[name].is_required():
            row = (*row, fields[name].get_default(call_default_factory=True))
        rows.append(row)
    return rows


def printed(rows: list[list[str]]) -> list[tuple[Any, ...]]:
    return [(row[0], plain_type(row[1]), *(ast.literal_eval(text) for text in row[2:])) for row in rows]


def accepts(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    """Whether a parameter takes what the seed's takes: the same, or one more way (a default, None, a fraction)."""
    if len(ours) > len(theirs):  # what the seed requires may be left out here
        ours = ours[: len(theirs)]
    wider = {f"{theirs[1]} | None", "float" if theirs[1] == "int" else theirs[1]}
    return ours[0] == theirs[0] and ours[1] in wider | {theirs[1]} and ours[2:] == theirs[2:]


@pytest.mark.parametrize("entry", entries("signature"))
def test_signatures_are_those_of_the_seed(entry: dict[str, Any]) -> None:
    if is_missing(entry):
        assert entry["issue"] in OPEN_ISSUES
        return
    kind = locate(entry["object"])
    wanted = printed(entry["fields"] if "fields" in entry else entry["parameters"])
    parameters = [each for each in inspect.signature(kind).parameters.values() if each.name != "self"]
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        ours = model_shape(kind, [row[0] for row in wanted])
        assert all(len(row) == 3 for row in ours[len(wanted) :]), "what we added may be left out"
        parameters = parameters[: len(wanted)]
    else:
        ours = shape(kind, parameters)
    differing = [pair for pair in zip(ours, wanted, strict=False) if not accepts(*pair)]
    assert not differing, f"ours and the seed's: {differing}"
    assert len(ours) >= len(wanted)
    for added in parameters[len(wanted) :]:
        optional = (added.KEYWORD_ONLY, added.VAR_KEYWORD, added.VAR_POSITIONAL)
        assert added.kind in optional or added.default is not added.empty, f"{added.name} is required"
    if "returns" in entry:
        assert plain_type(str(inspect.signature(kind).return_annotation)) == plain_type(entry["returns"])


@pytest.mark.parametrize("entry", entries("constant"))
def test_constants_are_those_of_the_seed(entry: dict[str, Any]) -> None:
    found = locate(entry["object"])
    for name, value in entry["values"].items():
        if isinstance(found, str):
            assert found == value
        else:
            assert (found[name] if isinstance(found, dict) else getattr(found, name)) == value
    if isinstance(found, dict):
        assert found == entry["values"]


def test_the_comparison_sees_what_differs() -> None:
    assert accepts(("a", "int", 1), ("a", "int", 1))
    assert accepts(("a", "dict | None", None), ("a", "dict"))
    assert accepts(("a", "float", 5), ("a", "int", 5))
    assert not accepts(("a", "int", 5), ("a", "float", 5))
    assert not accepts(("a", "int", 2), ("a", "int", 1))
    assert not accepts(("b", "int", 1), ("a", "int", 1))
    assert not accepts(("a", "int"), ("a", "int", 1))
    assert not accepts(("a", "str", 1), ("a", "int", 1))
