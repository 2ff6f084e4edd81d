"""The list of methods in docs/python.md, from the docstrings of the client."""

from __future__ import annotations

import inspect
from enum import Enum
from typing import Any

from afl.client.async_client import AsyncClient
from afl.client.async_fleet import AsyncFleet
from afl.client.async_handle import AsyncRunHandle
from afl.client.async_messages import AsyncMessages
from afl.client.async_session import AsyncSession
from afl.client.async_turns import AsyncTurns
from afl.client.connection import connect
from afl.client.worker import Worker
from afl.operations.run.run_events import RunEvent
from afl.operations.work.hosting import run
from afl.runtime.task_handlers.handler import handler

HEADING = "## Every method\n"
_LONGEST = 100
_CLASSES = (
    AsyncClient,
    AsyncRunHandle,
    RunEvent,
    Worker,
    AsyncTurns,
    AsyncSession,
    AsyncFleet,
    AsyncMessages,
)


def render() -> str:
    """The end of the page."""
    lines = [
        HEADING,
        "Made from the docstrings by `make docs`. Methods of the asynchronous client are shown;",
        "",
    ]
    lines[1] += " `Client`, `RunHandle`,"
    lines.insert(2, "`Turns`, `Session`, `Fleet` and `Messages` have the same ones, without `await`.")
    for function in (connect, run, handler):
        lines += [f"### `afl.{function.__name__}`", "", *_described(function)]
    for each in _CLASSES:
        lines += [f"### `{each.__name__}`", "", *_text(each)]
        for name, member in vars(each).items():
            if not name.startswith("_") and (inspect.isfunction(member) or _is_property(member)):
                lines += _described(member, name)
    return "\n".join(lines).rstrip() + "\n"


def _is_property(member: Any) -> bool:
    return isinstance(member, property) or type(member).__name__ == "cached_property"


def _described(member: Any, name: str = "") -> list[str]:
    if _is_property(member):
        function = getattr(member, "fget", None) or member.func
        return [f"**`{name}`**", "", *_text(function)]
    return ["```text", *_signature(member), "```", "", *_text(member)]


def _signature(function: Any) -> list[str]:
    """As one would write it; a long one with a line for each parameter."""
    found = inspect.signature(function)
    shown = [each for each in found.parameters.values() if each.name != "self"]
    end = str(found.return_annotation).replace("'", "")
    parts = [_parameter(each) for each in shown]
    star = next((n for n, each in enumerate(shown) if each.kind is each.KEYWORD_ONLY), None)
    if star is not None:
        parts.insert(star, "*")
    line = f"{function.__name__}({', '.join(parts)}) -> {end}"
    if len(line) <= _LONGEST:
        return [line]
    return [f"{function.__name__}(", *(f"    {part}," for part in parts), f") -> {end}"]


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = f"{stars.get(parameter.kind, '')}{parameter.name}: {parameter.annotation}"
    if parameter.default is parameter.empty:
        return shown
    default = parameter.default
    return f"{shown} = {(default.value if isinstance(default, Enum) else default)!r}"


def _text(documented: Any) -> list[str]:
    return [*(inspect.getdoc(documented) or "").splitlines(), ""]
