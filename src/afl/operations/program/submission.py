"""Starting runs: inputs from texts and files, submission to a store."""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from afl.kernel import codec
from afl.kernel.bounds import A_RUN_ID, is_run_id
from afl.kernel.errors import AgentFlowError, HeldError, InputError, PayloadError, SourcePlace
from afl.kernel.ids import sortable_id
from afl.operations.parameters import Dollars, RunId, RunName, SourceName, Tags, Tokens
from afl.operations.program.library import find_workflow, load_workflow
from afl.operations.program.sources import SourceText, program_of
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_summary import set_budget
from afl.operations.spans import clock
from afl.runtime.entities import RunDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.inputs import check_inputs
from afl.runtime.program.program import Program
from afl.runtime.program.values import TypeSpec, type_text
from afl.runtime.types import WorkflowId

_MISSING = object()
_BYTE = re.compile(r"\(byte (\d+)\)$")


def read_inputs(
    program: Program, pairs: Iterable[str] = (), whole: str | Path | None = None
) -> dict[str, Any]:
    """The inputs that `name=value` pairs and a JSON object, or a file with one, give; the pairs win.

    InputError if one does not fit.
    """
    given = _read_object(str(whole)) if whole is not None else {}
    given |= read_pairs(program, pairs)
    try:
        check_inputs(program, given)
    except PayloadError:
        raise
    except InputError as error:
        error.hint = _how(program)
        raise
    return given


def _how(program: Program) -> str:
    """What the workflow takes, and how one writes it."""
    params = program.workflow.params
    if not params:
        return "It takes no inputs."
    taken = ", ".join(f"{param.name}: {type_text(param.type)}" for param in params)
    return f"It takes ({taken}); write --input {params[0].name}=VALUE, a text as it is and all else as JSON."


def read_pairs(program: Program, pairs: Iterable[str]) -> dict[str, Any]:
    """The inputs that `name=value` texts give, each read by its type."""
    kinds = {param.name: param.type for param in program.workflow.params}
    values: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise InputError(f"an input is written name=value, got {pair!r}")
        if name in values:
            raise InputError(f"input {name!r} is given twice")
        values[name] = read_value(text, kinds.get(name, "Any"), what=f"input {name!r}")
    return values


def read_tags(pairs: Iterable[str] | None) -> dict[str, str]:
    """The tags that `key=value` texts give."""
    tags: dict[str, str] = {}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise InputError(f"a tag is written key=value, got {pair!r}")
        tags[key] = value
    return tags


def read_value(text: str, kind: TypeSpec, *, what: str = "the value") -> Any:
    """The value of a typed text: that of the JSON that it is, unless a text is wanted; else the text itself."""
    try:
        value = _json(text.encode())
    except UnicodeEncodeError as error:
        raise InputError(f"{what} cannot be read: it is not UTF-8") from error
    except RecursionError as error:
        if kind == "String":
            return text
        raise InputError(f"{what} cannot be read: lists and maps are nested too deeply in it") from error
    if kind == "String":
        return value if isinstance(value, str) else text
    return text if value is _MISSING else value


def _json(data: bytes) -> Any:
    try:
        return codec.read(data)
    except msgspec.DecodeError:
        return _MISSING


def _read_object(given: str) -> dict[str, Any]:
    """What a text says that begins as a JSON object or list does, or the file that it names."""
    name, data = (
        ("--inputs", given.encode(errors="surrogateescape"))
        if given.lstrip().startswith(("{", "["))
        else (given, _read_file(given))
    )
    try:
        value = codec.read(data)
    except RecursionError as error:
        raise InputError(f"{name} cannot be read: lists and maps are nested too deeply in it") from error
    except ValueError as error:
        raise _malformed(name, data, error) from error
    if not isinstance(value, dict):
        raise InputError(f'{name} holds no JSON object; expected the inputs by name, like {{"name": 1}}')
    return value


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
    except FileNotFoundError as error:
        raise InputError(f"File not found: {path}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _malformed(name: str, data: bytes, reason: Exception) -> InputError:
    """The error of a file that is no JSON, with the line: msgspec counts bytes, and Python's own parser lines."""
    try:
        json.loads(data.decode())
    except UnicodeDecodeError as error:
        return _at_byte(name, data, error.start, f"not UTF-8: {error.reason}")
    except json.JSONDecodeError as error:
        wrong = InputError(f"{name} is not JSON: {error.msg}")
        wrong.place = SourcePlace(name, error.lineno, error.colno)
        return wrong
    except ValueError:
        pass  # a number that is too long
    byte = _BYTE.search(str(reason))
    if byte is None:
        return InputError(f"{name} is not JSON that can be read: {reason}")
    return _at_byte(name, data, int(byte[1]), f"not JSON: {str(reason).removesuffix(byte[0]).strip()}")


def _at_byte(name: str, data: bytes, byte: int, what: str) -> InputError:
    wrong = InputError(f"{name} is {what}")
    before = data[:byte].decode(errors="replace")
    wrong.place = SourcePlace(name, before.count("\n") + 1, len(before) - before.rfind("\n"))
    return wrong


class RunExists(
    AgentFlowError, hint="Use another id, or start the same workflow with the same inputs.", status=409
):
    """An id is that of a run of another program or workflow, or with other inputs."""


@dataclass(frozen=True)
class Submitted:
    """A run that was stored."""

    run: str
    workflow: str
    task_list: str


def submit(
    store: PersistenceAPI,
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    *,
    id: str = "",
    run_name: str = "",
    tags: Mapping[str, str] | None = None,
    task_list: str = "default",
    flow_id: str = "",
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    key: str = "",
    by: str = "",
    origin: str = "",
) -> Submitted:
    """Store a run for the servers of a task list. InputError, and nothing stored, if an input does not fit.

    The same `id` again is the same run, also when it is over; RunExists if that one has another program or other
    inputs. A `key` is an id of a user's own: those of other users are other ids. `origin` is the run that it repeats.
    """
    run = new_run(
        store,
        program,
        inputs,
        id=id or (id_of_key(by, key) if key else ""),
        run_name=run_name,
        tags=tags,
        task_list=task_list,
        flow_id=flow_id,
    )
    run.origin = origin
    earlier = store.get_run(WorkflowId(run.workflow_id)) if id or key else None
    if earlier is None:
        if budget_usd is not None or budget_tokens is not None:
            # before the run is there: somebody may begin it at once
            set_budget(store, run.workflow_id, usd=budget_usd, tokens=budget_tokens)
        program_cache(store).store(program)
        if store.insert_run(run):
            return Submitted(run.workflow_id, run.workflow_name, task_list)
        earlier = store.get_run(WorkflowId(run.workflow_id))
    if earlier is None:
        raise HeldError(f"run {run.workflow_id} was removed while it was started again; try once more")
    check_same(earlier, run, key)
    return Submitted(earlier.workflow_id, earlier.workflow_name, earlier.task_list)


def check_run_id(id: str) -> None:
    """InputError for what cannot be the id of a run; an empty one is made up."""
    if id and not is_run_id(id):
        kind = "" if isinstance(id, str) else "a text of "
        raise InputError(f"the id is {id!r:.80}; expected {kind}{A_RUN_ID}")


def new_run(
    store: PersistenceAPI,
    program: Program,
    inputs: Mapping[str, Any] | None,
    *,
    id: str = "",
    run_name: str = "",
    tags: Mapping[str, str] | None = None,
    task_list: str = "default",
    flow_id: str = "",
) -> RunDefinition:
    """A run that is not stored yet. InputError for inputs, an id, a name or tags that do not fit; an id is made up."""
    check_run_id(id)
    return Evaluator(store).new_run(
        program,
        inputs,
        task_list=task_list,
        flow_id=flow_id,
        workflow_id=WorkflowId(id or sortable_id()),
        name=run_name,
        tags=tags,
    )


def id_of_key(by: str, key: str) -> str:
    """The id that belongs to a user's key: users choose keys without knowing of each other."""
    return f"key-{hashlib.sha256(codec.encode_canonical([by, key])).hexdigest()[:32]}"


def check_same(earlier: RunDefinition, asked: RunDefinition, key: str = "") -> None:
    """RunExists unless a run that is there is the one that is asked for."""
    differing = [
        name
        for name, one, other in (
            ("workflow", earlier.workflow_name, asked.workflow_name),
            ("program", earlier.program_hash, asked.program_hash),
        )
        if one != other
    ]
    if inputs := _differing_inputs(earlier.inputs, asked.inputs):
        differing.append(f"inputs ({', '.join(inputs)})")
    if not differing and not earlier.parent_step:
        return
    name = f"the idempotency key {key!r}" if key else f"the id {asked.workflow_id!r}"
    if not differing:
        raise RunExists(f"{name} is that of a child run of {earlier.parent}")
    raise RunExists(
        f"{name} is that of run {earlier.workflow_id} of {earlier.workflow_name}, created at "
        f"{clock(earlier.created)}; this start of {asked.workflow_name} differs in its {' and '.join(differing)}"
    )


def _differing_inputs(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    missing = object()
    return [
        name
        for name in dict.fromkeys([*one, *other])
        if (a := one.get(name, missing)) is missing
        or (b := other.get(name, missing)) is missing
        or codec.encode_canonical(a) != codec.encode_canonical(b)
    ]


def submit_source(
    store: PersistenceAPI,
    source: str,
    workflow: str = "",
    inputs: Mapping[str, Any] | None = None,
    *,
    id: RunId = "",
    run_name: RunName = "",
    tags: Tags | None = None,
    name: SourceName = "",
    libraries: Sequence[SourceText] = (),
    task_list: str = "default",
    budget_usd: Dollars | None = None,
    budget_tokens: Tokens | None = None,
    key: str = "",
    by: str = "",
) -> Submitted:
    """Compile a source and store a run of its workflow (named, if it has several) for the servers of a task list.

    Nothing is stored if the source does not compile or an input does not fit.
    """
    program = program_of(source, workflow, name=name, libraries=libraries)
    return submit(
        store,
        program,
        inputs,
        id=id,
        run_name=run_name,
        tags=tags,
        task_list=task_list,
        budget_usd=budget_usd,
        budget_tokens=budget_tokens,
        key=key,
        by=by,
    )


def start_workflow(
    store: PersistenceAPI,
    workflow: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    id: RunId = "",
    run_name: RunName = "",
    tags: Tags | None = None,
    task_list: str = "default",
    budget_usd: Dollars | None = None,
    budget_tokens: Tokens | None = None,
    key: str = "",
    by: str = "",
) -> Submitted:
    """Store a run of a workflow that the store knows already, by its name."""
    known = find_workflow(store, workflow)
    return submit(
        store,
        load_workflow(store, known),
        inputs,
        id=id,
        run_name=run_name,
        tags=tags,
        task_list=task_list,
        flow_id=known.flow,
        budget_usd=budget_usd,
        budget_tokens=budget_tokens,
        key=key,
        by=by,
    )
