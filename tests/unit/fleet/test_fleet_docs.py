"""The pages on workflow files and on the protocol are complete and true."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from afl.fleet import requests, task_section, workflow_file
from afl.fleet.protocol import Kind
from afl.fleet.requests import Request
from afl.fleet.workflow import Ray, Subprocess, UvPython
from afl.fleet.workflow_file import read_workflow
from afl.operations.fleet.fleet_service import EXAMPLE

DOCS = Path(__file__).parents[3] / "docs"
YAML = (DOCS / "fleet-yaml.md").read_text()
PROTOCOL = (DOCS / "fleet-protocol.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", YAML, re.MULTILINE | re.DOTALL)


def section(text: str, heading: str) -> str:
    """A section of a page, without those below it."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def first_column(text: str) -> set[str]:
    """What stands in backquotes in the first column of the tables."""
    rows = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("text", [*EXAMPLES, EXAMPLE])
def test_every_example_is_a_workflow(text: str) -> None:
    workflow = read_workflow("example", "example.yml", text)
    assert workflow.dag.order


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("Workflow", workflow_file._KEYS),
        ("Task", task_section._TASK_KEYS),
        ("`!Subprocess`", task_section._CONFIG_KEYS[Subprocess]),
        ("`!UvPython`", task_section._CONFIG_KEYS[UvPython]),
        ("`!Ray`", task_section._CONFIG_KEYS[Ray]),
        ("Parameters", ("type", "default", "description", "choices")),
    ],
)
def test_the_tables_have_every_key(heading: str, keys: tuple[str, ...]) -> None:
    assert first_column(section(YAML, heading)) == set(keys)


def test_every_key_stands_in_an_example() -> None:
    keys = {*workflow_file._KEYS, *task_section._TASK_KEYS}
    assert [key for key in keys if not any(f"{key}:" in text for text in EXAMPLES)] == []


def kinds() -> dict[str, type[Request[Any]]]:
    found = [kind for kind in vars(requests).values() if isinstance(kind, type) and issubclass(kind, Request)]
    return {kind.verb: kind for kind in found if kind.verb}


def test_every_verb_is_there_and_no_other() -> None:
    tables = section(PROTOCOL, "Verbs of the reference") + section(PROTOCOL, "Verbs of our own")
    assert first_column(tables) == set(kinds()) and len(kinds()) == 22


def test_the_fields_of_json_requests_are_told() -> None:
    told = dict(re.findall(r"^\| `(\w+)` JSON: (.*?) \|", PROTOCOL, re.MULTILINE))
    for verb, names in told.items():
        assert names.split(", ") == list(kinds()[verb].__struct_fields__), verb
    assert len(told) == 5


def test_every_reply_is_told() -> None:
    told = first_column(section(PROTOCOL, "Requests and replies"))
    assert told == {kind.value for kind in Kind}


def test_the_example_tells_its_parameters() -> None:
    workflow = read_workflow("example", "example.yml", EXAMPLE)
    assert [dataclasses.asdict(each)["default"] for each in workflow.params.values()] == ["world"]
