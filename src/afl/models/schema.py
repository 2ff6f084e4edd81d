"""Tools from Python functions: the signature is the JSON schema, the docstring the description."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from afl.kernel import codec, event_loop
from afl.kernel.errors import InputError
from afl.models.messages import Tool, unreadable
from afl.models.parameter import Parameter, schemas_of

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ENTRY = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_FIELD = re.compile(r"^\s*:param\s+(?:[\w\[\], .|]+\s+)?(\w+):\s*(.*)$")
_OTHER_FIELD = re.compile(r"^\s*:\w+[^:]*:")


def described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description, and those of the parameters: `Args:` with `name: text` below it, or `:param name: text`."""
    words: list[str] = []
    parameters: dict[str, str] = {}
    section, current = "", ""
    for line in (inspect.getdoc(function) or "").splitlines():
        heading, field = _SECTION.match(line), _FIELD.match(line)
        if heading:
            section, current = heading[1], ""
        elif field:
            section, current = "Args", field[1]
            parameters[current] = field[2]
        elif section in ("Args", "Arguments", "Parameters") and not _OTHER_FIELD.match(line):
            current = _read_parameter(line, current, parameters)
        elif _OTHER_FIELD.match(line):
            section = "field"
        elif not section:
            words.append(line)
    return "\n".join(words).strip(), {name: text.strip() for name, text in parameters.items()}


def _read_parameter(line: str, current: str, parameters: dict[str, str]) -> str:
    """Take in one line of the parameters; the name of the parameter it belongs to."""
    entry = _ENTRY.match(line)
    if entry:
        parameters[entry[1]] = entry[2]
        return entry[1]
    if current and line.strip():
        parameters[current] += f" {line.strip()}"
    return current


@dataclass(frozen=True)
class PythonTool:
    """A function a model may call."""

    tool: Tool
    function: Callable[..., Any]
    parameters: Mapping[str, Parameter] = field(compare=False)

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.tool.name

    def __call__(self, given: Mapping[str, Any]) -> str:
        """What the function says to these arguments, as text; InputError if they do not fit its parameters."""
        arguments = self.arguments(given)
        answer = self.function(**arguments)
        if inspect.isawaitable(answer):
            answer = event_loop.run(_outcome(answer))
        if isinstance(answer, str):
            return answer
        return codec.encode(plain_answer(answer, self.name), what=f"what {self.name} gave")

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the function is called with; InputError names the argument that does not fit."""
        schema = self.tool.input_schema
        problem = unreadable(given, self.name)
        if problem is not None:
            raise InputError(problem)
        unknown = [name for name in given if name not in self.parameters]
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise InputError(f"{self.name} has no parameter {unknown[0]!r}; it has: {known}")
        missing = [name for name in schema["required"] if name not in given]
        if missing:
            raise InputError(f"{self.name} needs the parameter {', '.join(missing)}")
        return {name: self.parameters[name].value(value) for name, value in given.items()}


def tool_from(function: Callable[..., Any] | PythonTool, *, name: str = "") -> PythonTool:
    """The tool a function is; InputError names the parameter whose type JSON data cannot become."""
    if isinstance(function, PythonTool):
        return replace(function, tool=replace(function.tool, name=name)) if name else function
    called = _named(function, name)
    description, about = described(function)
    parameters = _parameters(function, called)
    kinds = _types(function, parameters, called)
    read = {name: Parameter(name, kind, called) for name, kind in kinds.items()}
    schemas, shared = schemas_of(read.values())
    for parameter in parameters:
        schema = schemas[parameter.name]
        if about.get(parameter.name):
            schema["description"] = about[parameter.name]
        if parameter.default is not parameter.empty and _is_plain(parameter.default):
            schema["default"] = parameter.default
    whole: dict[str, Any] = {
        "type": "object",
        "properties": schemas,
        "required": [each.name for each in parameters if each.default is each.empty],
        "additionalProperties": False,
    }
    if shared:
        whole["$defs"] = shared
    return PythonTool(Tool(called, description or f"The function {called}.", whole), function, read)


def _named(function: Callable[..., Any], name: str) -> str:
    """The name of the tool that a function is; InputError for what is no function, or has no name."""
    if not callable(function):
        raise InputError(f"{function!r} is not a tool; expected a function")
    if isinstance(function, partial):  # a model would be offered the arguments that it fixes
        raise InputError("a functools.partial cannot be a tool; write a function that calls it")
    called = name or getattr(function, "__name__", "")
    if not called:
        kind = type(function).__name__
        raise InputError(f'a tool that is a {kind} has no name; give it one: tool(f, name="...")')
    return str(called)


def _parameters(function: Callable[..., Any], called: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError as error:
        raise InputError(
            f"tool {called}: its parameters are not known; write a function that calls it"
        ) from error
    for each in parameters:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise InputError(
                f"tool {called}: parameter {each} cannot be given by name; write a plain parameter"
            )
        if type(each.default).__module__ == "pydantic.fields":
            raise InputError(
                f"tool {called}: the default of parameter {each.name!r} is a Field of pydantic; "
                f"write {each.name}: Annotated[..., Field(...)], and the default behind it"
            )
    return parameters


def _types(function: Callable[..., Any], parameters: list[inspect.Parameter], called: str) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise InputError(f"tool {called}: its types must be known in the whole module: {error}") from error
    return {each.name: hints.get(each.name, Any) for each in parameters}


def plain_answer(answer: Any, tool: str) -> Any:
    """What a tool gave as plain data, with all models in it; PayloadError names the tool if it cannot be."""
    return codec.plain_data(answer, what=f"what {tool} gave")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


async def _outcome(answer: Any) -> Any:
    return await answer
