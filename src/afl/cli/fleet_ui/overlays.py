"""Overlays to read: every key, and what is wrong in workflow files."""

from __future__ import annotations

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Label, Static

from afl.fleet.messages import FileProblem

_KEYS = (
    ("Everywhere", ""),
    ("tab, shift+tab", "next part, previous part"),
    ("↑ ↓ PgUp PgDn", "move in a list, scroll"),
    ("?", "this help"),
    ("q, ctrl+q", "leave; runs go on"),
    ("Workflows and runs", ""),
    ("/", "filter the workflows by a regular expression; esc clears it"),
    ("a", "runs of all workflows, or of the chosen one"),
    ("r", "start the chosen workflow; its parameters are asked for"),
    ("c", "end the chosen run"),
    ("l, enter", "log lines of the chosen run or workflow on the whole screen"),
    ("p", "what is wrong in workflow files"),
    ("f5", "look again now"),
    ("Log lines", ""),
    ("t", "live, or a search in what is stored"),
    ("v", "full form of the lines"),
    ("s", "stay at the end, or where you are"),
    ("/", "the regular expression; enter searches"),
    ("esc", "back"),
)


_CLOSE: list[BindingType] = [Binding("escape,question_mark,p,q,enter", "dismiss", "Close")]


class HelpScreen(ModalScreen[None]):
    """Any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = _CLOSE

    def compose(self) -> ComposeResult:
        table = Table.grid(padding=(0, 3))
        for key, text in _KEYS:
            if text:
                table.add_row(Text(f"  {key}", "bold cyan"), text)
            else:
                table.add_row(Text(f"\n{key}", "bold"), "")
        with Vertical(classes="dialog"):
            yield Label("Keys", classes="title")
            yield Static(table)


class ProblemsScreen(ModalScreen[None]):
    """Files that are no workflows, and why."""

    BINDINGS: ClassVar[list[BindingType]] = _CLOSE

    def __init__(self, problems: tuple[FileProblem, ...]) -> None:
        super().__init__()
        self._problems = problems

    def compose(self) -> ComposeResult:
        text = Text()
        for each in self._problems:
            text.append(f"{each.path}:{each.line}\n", "bold red")
            text.append(f"  {each.key}: {each.error}\n" if each.key else f"  {each.error}\n")
        with Vertical(classes="dialog"):
            yield Label("Problems in workflow files", classes="title")
            with VerticalScroll(id="fields"):
                yield Static(text if self._problems else Text("none", "green"))
