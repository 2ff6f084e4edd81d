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
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import zip_longest
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


@pytest.mark.parametrize("number", SEEDS)
def test_a_seed_has_no_gap(number: str) -> None:
    """Every rule has a test or waits for an open issue; signatures and constants are those the seed prints."""
    found = seed_map(number)
    gaps = [*map_gaps(found)]
    for rule in found["rule"]:
        gaps += (f"{rule['id']}: {gap}" for gap in rule_gaps(rule))
    for entry in found["signature"]:
        gaps += (f"{entry['object']}: {gap}" for gap in signature_gaps(entry))
    for entry in found["constant"]:
        gaps += (f"{entry['object']}: {gap}" for gap in constant_gaps(entry))
    assert not gaps, "\n".join([f"{len(gaps)} gaps in seed {number}:", *gaps])


def map_gaps(found: dict[str, Any]) -> Iterator[str]:
    sections = {rule["section"] for rule in found["rule"]}
    for section in sections ^ set(found["sections"]):
        yield f"section {section!r}: rules and the list of sections do not agree"
    names = Counter(rule["id"] for rule in found["rule"])
    yield from (f"{name} is the id of {count} rules" for name, count in names.items() if count > 1)


def rule_gaps(rule: dict[str, Any]) -> Iterator[str]:
    if not rule["text"].strip():
        yield "has no text"
    if "issue" in rule:
        if "tests" in rule:
            yield "has tests; drop its issue"
        if rule["issue"] not in OPEN_ISSUES:
            yield f"{rule['issue']} is closed, so name the tests"
        return
    if not rule["tests"]:
        yield "names no test"
    yield from (
        f"names a test that does not exist: {name}" for name in rule["tests"] if not is_collected(name)
    )


def test_an_open_issue_has_something_left_to_show() -> None:
    waiting = {rule.get("issue") for number in SEEDS for rule in seed_map(number)["rule"]} - {None}
    assert waiting == OPEN_ISSUES


def test_the_check_sees_a_test_that_does_not_exist() -> None:
    here = "tests/unit/test_seed_maps.py"
    assert is_collected(f"{here}::test_a_seed_has_no_gap[000]")
    assert not is_collected(f"{here}::test_that_nobody_wrote")
    assert not is_collected("tests/unit/no_such_file.py::test_a_seed_has_no_gap")


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


def signature_gaps(entry: dict[str, Any]) -> Iterator[str]:
    if is_missing(entry):
        return
    try:
        kind = locate(entry["object"])
    except (ImportError, AttributeError) as error:
        yield f"does not exist: {error}"
        return
    wanted = printed(entry["fields"] if "fields" in entry else entry["parameters"])
    parameters = [each for each in inspect.signature(kind).parameters.values() if each.name != "self"]
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        ours = model_shape(kind, [row[0] for row in wanted])
        yield from (
            f"{row[0]} is required, the seed has no such field" for row in ours[len(wanted) :] if len(row) < 3
        )
        parameters = parameters[: len(wanted)]
    else:
        ours = shape(kind, parameters)
    for mine, theirs in zip_longest(ours[: len(wanted)], wanted):
        if mine is None or not accepts(mine, theirs):
            yield f"is {mine}, the seed has {theirs}"
    for added in parameters[len(wanted) :]:
        optional = (added.KEYWORD_ONLY, added.VAR_KEYWORD, added.VAR_POSITIONAL)
        if added.kind not in optional and added.default is added.empty:
            yield f"{added.name} is required, the seed has no such parameter"
    if "returns" in entry:
        ours_returned = plain_type(str(inspect.signature(kind).return_annotation))
        if ours_returned != plain_type(entry["returns"]):
            yield f"returns {ours_returned}, the seed's returns {entry['returns']}"


def constant_gaps(entry: dict[str, Any]) -> Iterator[str]:
    try:
        found = locate(entry["object"])
    except (ImportError, AttributeError) as error:
        yield f"does not exist: {error}"
        return
    if isinstance(found, dict):
        if found != entry["values"]:
            yield f"is {found}, the seed has {entry['values']}"
        return
    for name, value in entry["values"].items():
        ours = found if isinstance(found, str) else getattr(found, name, "missing")
        if ours != value:
            yield f"{name} is {ours!r}, the seed has {value!r}"


def test_the_checks_see_what_is_wrong() -> None:
    here = "tests/unit/test_seed_maps.py"
    good = {"id": "a", "section": "1", "text": "A rule.", "tests": [f"{here}::test_a_seed_has_no_gap"]}
    assert not [*rule_gaps(good)]
    assert [*rule_gaps({**good, "tests": []})] == ["names no test"]
    assert [*rule_gaps({**good, "tests": [f"{here}::test_no"]})] == [
        f"names a test that does not exist: {here}::test_no"
    ]
    assert [*rule_gaps({**good, "text": " "})] == ["has no text"]
    assert len([*rule_gaps({**good, "issue": "closed"})]) == 2
    assert not [*map_gaps({"sections": ["1"], "rule": [good]})]
    assert len([*map_gaps({"sections": ["1", "2"], "rule": [good, good]})]) == 2
    renamed = {"object": f"{__name__}:is_collected", "parameters": [["name", "str"]]}
    assert [*signature_gaps({"object": "afl:nothing", "parameters": []})]
    assert not [*signature_gaps({"object": f"{__name__}:is_collected", "parameters": [["test_id", "str"]]})]
    assert len([*signature_gaps(renamed)]) == 1
    wrong = {"object": f"{__name__}:is_collected", "parameters": [], "returns": "str"}
    assert len([*signature_gaps(wrong)]) == 2
    assert not [*constant_gaps({"object": "math:e", "values": {}})]
    assert [*constant_gaps({"object": "string:digits", "values": {"digits": "0"}})]
    assert [*constant_gaps({"object": "math:e", "values": {"real": 2}})]
    assert [*constant_gaps({"object": "math:nothing", "values": {}})]


def test_the_comparison_sees_what_differs() -> None:
    assert accepts(("a", "int", 1), ("a", "int", 1))
    assert accepts(("a", "dict | None", None), ("a", "dict"))
    assert accepts(("a", "float", 5), ("a", "int", 5))
    assert not accepts(("a", "int", 5), ("a", "float", 5))
    assert not accepts(("a", "int", 2), ("a", "int", 1))
    assert not accepts(("b", "int", 1), ("a", "int", 1))
    assert not accepts(("a", "int"), ("a", "int", 1))
    assert not accepts(("a", "str", 1), ("a", "int", 1))
