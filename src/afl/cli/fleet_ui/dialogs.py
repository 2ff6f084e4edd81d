"""Screens above the main one: forms, confirmations, help."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, Select, Static

from afl.fleet.messages import FileProblem, RunView
from afl.fleet.workflow import Parameter, ParameterKind, Workflow, bind, shown
from afl.kernel.errors import InputError

_ESCAPE: list[BindingType] = [Binding("escape", "leave", "Close")]


class StartDialog(ModalScreen[dict[str, Any] | None]):
    """A field per parameter; gives the parameters, or None."""

    BINDINGS: ClassVar[list[BindingType]] = _ESCAPE

    def __init__(self, workflow: Workflow) -> None:
        super().__init__()
        self.workflow = workflow

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(f"Start {self.workflow.name}", classes="title")
            if self.workflow.description:
                yield Static(self.workflow.description, classes="hint", markup=False)
            with VerticalScroll(id="fields"):
                for name, parameter in self.workflow.params.items():
                    yield Label(_title(name, parameter), markup=False)
                    yield _field(name, parameter)
            yield Static("", id="wrong", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Start", variant="success", id="go")
                yield Button("Back", id="back")

    def on_mount(self) -> None:
        fields = [*self.query("#fields Input"), *self.query("#fields Select")]
        (fields[0] if fields else self.query_one("#go")).focus()

    @on(Input.Submitted)
    @on(Button.Pressed, "#go")
    def _go(self) -> None:
        """The same check as the principal's, so that what is wrong is told here."""
        given = self._values()
        try:
            bind(self.workflow, given)
        except InputError as error:
            self.query_one("#wrong", Static).update(str(error))
            return
        self.dismiss(given)

    @on(Button.Pressed, "#back")
    def action_leave(self) -> None:
        self.dismiss(None)

    def _values(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, parameter in self.workflow.params.items():
            field = self.query_one(f"#param-{name}")
            text = field.value if isinstance(field, (Input, Select)) else ""
            if isinstance(text, str) and (text != "" or parameter.kind is ParameterKind.STRING):
                found[name] = text
        return found


class CancelDialog(ModalScreen[str | None]):
    """Whether a run is ended, and why; gives the reason, or None."""

    BINDINGS: ClassVar[list[BindingType]] = _ESCAPE

    def __init__(self, run: RunView) -> None:
        super().__init__()
        self.run_view = run

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(f"End this run of {self.run_view.workflow_name}?", classes="title", markup=False)
            yield Static(
                f"{self.run_view.run_id}  {self.run_view.status.value}", classes="hint", markup=False
            )
            yield Input(placeholder="reason (may be empty)", id="reason")
            with Horizontal(classes="buttons"):
                yield Button("End it", variant="error", id="go")
                yield Button("Back", id="back")

    @on(Input.Submitted)
    @on(Button.Pressed, "#go")
    def _go(self) -> None:
        self.dismiss(self.query_one("#reason", Input).value)

    @on(Button.Pressed, "#back")
    def action_leave(self) -> None:
        self.dismiss(None)


def _title(name: str, parameter: Parameter) -> str:
    described = f": {parameter.description}" if parameter.description else ""
    return f"{name} ({parameter.kind.value}{', required' if parameter.required else ''}){described}"


def _field(name: str, parameter: Parameter) -> Input | Select[str]:
    choices = parameter.choices
    if parameter.kind is ParameterKind.BOOLEAN:
        choices = choices or (True, False)
    default = "" if parameter.default is None else shown(parameter.default)
    if not choices:
        return Input(default, id=f"param-{name}", placeholder=parameter.kind.value)
    options = [(shown(each), shown(each)) for each in choices]
    if parameter.default is None:
        return Select(options, id=f"param-{name}")
    return Select(options, id=f"param-{name}", value=default, allow_blank=False)


_KEYS = (
    ("Everywhere", ""),
    ("tab, shift+tab", "next part, previous part"),
    ("↑ ↓ PgUp PgDn", "move in a list, scroll"),
    ("?", "this help"),
    ("q, ctrl+q", "exit; runs continue"),
    ("Workflows and runs", ""),
    ("/", "filter the workflows by a regular expression; esc clears it"),
    ("a", "runs of all workflows, or of the chosen one"),
    ("r", "start the chosen workflow; its parameters are asked for"),
    ("c", "end the chosen run"),
    ("l, enter", "log lines of the chosen run or workflow on the whole screen"),
    ("p", "mistakes in workflow files"),
    ("f5", "look again now"),
    ("Log lines", ""),
    ("t", "live lines, or a search in stored ones"),
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
