"""What `start` is given: a path, a text, the name of a stored workflow, or a compiled program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afl.kernel.errors import InputError
from afl.operations.program.sources import SourceError, read_file
from afl.runtime.program.program import Program

Source = str | Path | Mapping[str, Any] | Program
OPTIONS = (
    "id",
    "name",
    "tags",
    "task_list",
    "budget_usd",
    "budget_tokens",
    "connection",
    "timeout",
    "handlers",
)


@dataclass(frozen=True)
class StartSource:
    """One of: `text` in AFL with the `name` that messages show, a compiled `program`, a stored `workflow`."""

    text: str = ""
    name: str = ""
    program: Program | None = None
    workflow: str = ""


def read_source(source: Source, workflow: str | None) -> StartSource:
    """The source with its kind found out. A text in AFL has a brace or is longer than a line."""
    if isinstance(source, Program):
        return StartSource(program=source if workflow is None else source.of_workflow(workflow))
    if isinstance(source, Mapping):
        return StartSource(program=_compiled(source, workflow))
    if isinstance(source, str) and ("{" in source or "\n" in source):
        return StartSource(text=source, name="<string>", workflow=workflow or "")
    if not isinstance(source, str | Path):
        raise InputError(
            f"a source is a path, a text in AFL, a compiled program or the name of a workflow, got {source!r:.80}"
        )
    if isinstance(source, Path) or source.endswith(".afl") or Path(source).is_file():
        return StartSource(text=read_file(source).text, name=str(source), workflow=workflow or "")
    if not source or "/" in source or " " in source:
        raise SourceError(f"{source[:80]!r} is neither a file, nor AFL, nor the name of a workflow")
    return StartSource(workflow=workflow or source)


def _compiled(compiled: Mapping[str, Any], workflow: str | None) -> Program:
    """What `emit_dict` returned, or the record of a program."""
    record: dict[str, Any] = dict(compiled) if "program" in compiled else {"program": dict(compiled)}
    if workflow is not None:
        record["workflow"] = workflow
    if "workflow" not in record:
        known = Program(record).workflows()
        if len(known) != 1:
            raise InputError(
                f"the program declares {', '.join(known) or 'no workflow'}; name the workflow to start"
            )
        record["workflow"] = known[0]
    return Program(record)


def as_mapping(option: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an option gives by name, nothing for None; InputError for what is no mapping."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"{option} is a mapping by name, such as {{'team': 'data'}}, got {given!r:.80}")
    return dict(given)


def as_id(given: str | None) -> str:
    """The id of a run, empty for None; InputError for one that is empty, which would start another run each time."""
    if given == "":
        raise InputError("the id of the run is empty; without id= one is generated")
    return given or ""


def as_name(given: str | None) -> str:
    """The name of a run, empty for None; InputError for what is no text."""
    if given is not None and not isinstance(given, str):
        raise InputError(
            f"the name of a run is a text, got {given!r:.80}; an input that is called so goes into "
            "inputs={'name': ...}"
        )
    return given or ""


def merged_inputs(inputs: Mapping[str, Any] | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that a mapping and keywords give; InputError for one that both give."""
    given = as_mapping("inputs", inputs)
    if twice := sorted(given.keys() & values.keys()):
        raise InputError(f"the input {twice[0]!r} is given twice: in inputs= and as a keyword")
    return {**given, **values}


def explained(error: InputError) -> InputError:
    """The error, with a word on how to give an input that is named like an option, if such a one is missing."""
    named = [name for name in OPTIONS if f"input '{name}' is missing" in str(error)]
    if type(error) is not InputError or not named:
        return error
    return InputError(f"{error}; {named[0]}= is an option of start, so give inputs={{{named[0]!r}: ...}}")
