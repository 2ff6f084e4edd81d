"""The help of commands, as plain text with bold words.

Typer would draw it with Rich, whose import takes longer than all else that `afl COMMAND --help` does.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from afl.kernel.errors import InputError

CONTEXT = {"help_option_names": ["-h", "--help"]}
_WIDEST = 30
_BOLD = re.compile(r"\[bold\](.*?)\[/bold\]", re.DOTALL)


# What reads the values of options, by their metavar.
_READERS = {
    "SPAN": ("afl.operations.spans", "read_span"),
    "KEY=VALUE": ("afl.operations.program.submission", "read_tags"),
}


class HelpCommand(TyperCommand):
    """A command with this help; a span of time or a tag that cannot be read is wrong usage."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for each in self.params:
            _shorten(each)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        for option in self.params:
            given = ctx.params.get(option.name)
            if given and option.metavar in _READERS and not ctx.resilient_parsing:  # as completion does
                module, reader = _READERS[option.metavar]
                try:
                    getattr(import_module(module), reader)(given)
                except InputError as error:
                    raise typer.BadParameter(str(error), ctx, option) from error
        return rest

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        write_text(formatter, self.help or "")


class HelpGroup(TyperGroup):
    """A group of commands with this help."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        write_text(formatter, self.help or "")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(each.help or "")) for name, each in commands.items() if each])


class HelpTyper(typer.Typer):
    """An application whose commands have this help."""

    def __init__(self, *, cls: type[TyperGroup] = HelpGroup, **options: Any) -> None:
        super().__init__(cls=cls, rich_markup_mode=None, context_settings=CONTEXT, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=HelpCommand, context_settings=CONTEXT, **options)


def _shorten(parameter: Any) -> None:
    """What an argument, or an option with many choices, may be is said beside its name, in lines that fit the help."""
    choices = ", ".join(getattr(parameter.type, "choices", ()))
    if parameter.metavar is None and (
        len(choices) > _WIDEST or (choices and "argument" in parameter.param_type_name)
    ):
        parameter.metavar = parameter.name.upper()
        parameter.help = f"{parameter.help} One of {choices}."


def write_text(formatter: Any, text: str) -> None:
    """A docstring: paragraphs are filled, lines that are indented stay as they are."""
    for paragraph in styled(inspect.cleandoc(text)).split("\n\n"):
        formatter.write_paragraph()
        with formatter.indentation():
            if paragraph.startswith(" "):
                margin = " " * formatter.current_indent
                formatter.write("".join(f"{margin}{line}\n" for line in paragraph.split("\n")))
            else:
                formatter.write_text(paragraph)


def styled(text: str) -> str:
    """`[bold]word[/bold]` in bold, which is left out where the output is no terminal; `\\[` is a bracket."""
    return _BOLD.sub(lambda found: typer.style(found[1], bold=True), text).replace("\\[", "[")


def summary(text: str) -> str:
    """The first paragraph of a help text, without markup."""
    first = inspect.cleandoc(text).partition("\n\n")[0]
    return _BOLD.sub(r"\1", " ".join(first.split())).replace("\\[", "[")
