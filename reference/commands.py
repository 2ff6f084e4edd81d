"""docs/reference-cli.md: every command with its arguments, options, text and examples, from the functions themselves.

What Typer is told stands in the annotations of a command's function; it is read from there, so this page depends on
nothing that Typer keeps to itself.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from afl.cli.app import COMMANDS, root
from reference.tables import anchor, table

_EXAMPLES = "[bold]Examples[/bold]"


class Command(NamedTuple):
    """One command: `turns send`, the text of its help, and the function that does it (a group has none)."""

    name: str
    text: str
    function: Callable[..., Any] | None


def render() -> str:
    """The whole page."""
    found = list(all_commands())
    lines = [
        "# Command line",
        "",
        "Generated from the commands by `make docs`; do not edit this page by hand. `afl COMMAND --help`",
        "shows the same in the terminal.",
        "",
        *_prose(inspect.getdoc(root) or ""),
        "",
        *table(
            ["command", "what it does"],
            [
                [f"[`afl {name}`](#{anchor(f'afl {name}')})", entry.summary]
                for name, entry in COMMANDS.items()
            ],
        ),
        "",
    ]
    for command in found:
        lines += _section(command)
    return "\n".join(lines).rstrip() + "\n"


def all_commands() -> Iterator[Command]:
    """Every command in the order of the list; a group comes before its own."""
    for name, entry in COMMANDS.items():
        found = vars(importlib.import_module(f"afl.cli.{entry.module}"))[entry.function]
        if isinstance(found, typer.Typer):
            yield from _of_group(name, found)
        else:
            yield Command(name, inspect.getdoc(found) or "", found)


def _of_group(name: str, group: typer.Typer) -> Iterator[Command]:
    # A group that does something without a command has a callback; its text is the group's, or the callback's own.
    callback = group.registered_callback.callback if group.registered_callback else None
    text = group.info.help if isinstance(group.info.help, str) else inspect.getdoc(callback) or ""
    yield Command(name, inspect.cleandoc(text), callback)
    for info in group.registered_commands:
        assert info.callback is not None and info.name
        yield Command(f"{name} {info.name}", inspect.getdoc(info.callback) or "", info.callback)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None and inner.name
        yield from _of_group(f"{name} {inner.name}", inner.typer_instance)


def options_of(command: Command) -> set[str]:
    """Every name of an option that the command takes."""
    found = _parameters(command.function) if command.function else ()
    return {"-h", "--help", *(word for each in found for word in re.findall(r"`(-[-\w]+)", each.shown))}


def _section(command: Command) -> list[str]:
    text, _, examples = command.text.partition(_EXAMPLES)
    level = "#" * (2 + command.name.count(" "))
    lines = [f"{level} afl {command.name}", ""]
    parameters = list(_parameters(command.function)) if command.function else []
    if command.function is not None:
        lines += ["```", _usage(command.name, parameters), "```", ""]
    lines += [*_prose(text), ""]
    if parameters:
        rows = [[each.shown, each.default, each.help] for each in parameters]
        lines += [*table(["argument or option", "default", "meaning"], rows), ""]
    if examples.strip():
        lines += ["```sh", *map(_example, examples.strip().splitlines()), "```", ""]
    return lines


def _example(line: str) -> str:
    """A command as a shell takes it: what help says beside it is a comment there."""
    return re.sub(r"(?<=\S) {2,}", "  # ", line.strip(), count=1).replace("\\[", "[")


def _prose(text: str) -> list[str]:
    """Help as Markdown: bold words are commands there, and a bracket that is no markup has a backslash."""
    plain = re.sub(r"\[bold\](.*?)\[/bold\]", r"`\1`", text.strip())
    return plain.replace("\\[", "[").splitlines()


class Parameter(NamedTuple):
    """An argument or option as the page shows it."""

    usage: str
    shown: str
    default: str
    help: str


def _parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        annotated = hints[name]
        if annotated is typer.Context:
            continue
        assert get_origin(annotated) is Annotated, f"{function.__name__}: {name}"
        kind, info = get_args(annotated)[:2]
        if isinstance(info, ArgumentInfo):
            yield _argument(name, kind, info, parameter.default)
        elif isinstance(info, OptionInfo) and not info.hidden:
            yield _option(name, kind, info, parameter.default)


def _argument(name: str, kind: Any, info: ArgumentInfo, default: Any) -> Parameter:
    word = info.metavar or name.upper()
    required = default is inspect.Parameter.empty
    many = "..." if _is_list(kind) and "..." not in word else ""
    usage = word + many if required or word.startswith("[") else f"[{word}]{many}"
    return Parameter(usage, f"`{word}`", _default(default), _meaning(kind, info))


def _option(name: str, kind: Any, info: OptionInfo, default: Any) -> Parameter:
    # In an annotation the first name stands where a default would; the flag that says no comes after a slash.
    given = [each for each in (info.default, *(info.param_decls or ())) if isinstance(each, str)]
    names = [word for each in given or [f"--{name.replace('_', '-')}"] for word in each.split("/")]
    word = info.metavar or _word(kind) or names[0].strip("-").upper()
    value = "" if _plain(kind) is bool else f" {word}"
    shown = ", ".join(f"`{each}{value if each.startswith('--') else ''}`" for each in names)
    required = default is inspect.Parameter.empty
    return Parameter(f"{names[0]}{value}" if required else "", shown, _default(default), _meaning(kind, info))


def _usage(name: str, parameters: list[Parameter]) -> str:
    words = [each.usage for each in parameters if each.usage]
    options = ["[OPTIONS]"] if any(each.shown.startswith("`-") for each in parameters) else []
    return " ".join(["afl", name, *words, *options])


def _plain(kind: Any) -> Any:
    """The type without `None` and without `list`."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    return _plain(parts[0]) if parts else kind


def _is_list(kind: Any) -> bool:
    return get_origin(kind) is list or any(get_origin(part) is list for part in get_args(kind))


def _word(kind: Any) -> str:
    return {int: "N", float: "NUMBER", str: "TEXT", Path: "FILE"}.get(_plain(kind), "")


def _meaning(kind: Any, info: ArgumentInfo | OptionInfo) -> str:
    plain = _plain(kind)
    text = info.help or ""
    if isinstance(plain, type) and issubclass(plain, Enum):
        text += f" One of {', '.join(f'`{each.value}`' for each in plain)}."
    if info.min is not None and info.max is not None:
        text += f" From {info.min} to {info.max}."
    return text


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    if value is None or value is False or value == "":
        return ""
    return "yes" if value is True else f"`{value.value if isinstance(value, Enum) else value}`"
