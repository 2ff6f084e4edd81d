"""The terminal UI of the fleet: the application and its main screen."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Footer, Input, Static
from textual.worker import get_current_worker

from afl.cli.fleet_ui.dialogs import CancelDialog, HelpScreen, ProblemsScreen, StartDialog
from afl.cli.fleet_ui.log_screen import LogScreen
from afl.cli.fleet_ui.panels import (
    MOST_LINES,
    DagView,
    Rows,
    RunLog,
    agent_rows,
    run_rows,
    top_line,
    workflow_rows,
)
from afl.fleet.client import Client
from afl.fleet.errors import PrincipalAway
from afl.fleet.settings import FleetSettings
from afl.kernel.clock import wall_ms
from afl.kernel.errors import AgentFlowError
from afl.operations.fleet import fleet
from afl.operations.fleet.fleet_dag import RunStanding
from afl.operations.fleet.fleet_follow import Away, follow_run
from afl.operations.fleet.fleet_view import Overview, OverviewReader

_PARTS = ("#top", "#filter", "#workflows", "#agents", "#runs", "#dag-part", "#log-part")


class MainScreen(Screen[None]):
    """Workflows and agents on the left; runs, DAG and lines on the right."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter"),
        Binding("r", "start", "Run"),
        Binding("c", "cancel", "Cancel"),
        Binding("l,enter", "logs", "Logs"),
        Binding("a", "all_runs", "All runs"),
        Binding("p", "problems", "Problems"),
        Binding("f5", "look", "Look again", show=False),
        Binding("escape", "clear", show=False),
    ]

    def __init__(self, settings: FleetSettings) -> None:
        super().__init__()
        self.settings = settings
        self.overview = Overview()
        self.workflow_id = ""
        self.run_id = ""
        self.every_run = False
        self._wanted_run = ""  # one that was started here, until the list has it
        self.away_since: int | None = None
        self._followed = ""
        self._wake = threading.Event()

    def compose(self) -> ComposeResult:
        yield Static("", id="top")
        with Horizontal():
            with Vertical(id="left"):
                with Vertical(classes="part", id="workflows-part"):
                    yield Input(placeholder="/ filters by id or name", id="filter")
                    yield Rows("", "ID", "NAME", id="workflows")
                with Vertical(classes="part", id="agents-part"):
                    yield Rows("AGENT", "STATE", "RUNS", "SEEN", id="agents")
            with Vertical(id="right"):
                with Vertical(classes="part", id="runs-part"):
                    yield Rows("RUN", "WORKFLOW", "STATUS", "CREATED", "TOOK", id="runs")
                yield DagView(classes="part", id="dag-part")
                yield RunLog(classes="part", id="log-part")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#workflows").focus()
        self._show()
        self._look_out()

    def on_unmount(self) -> None:
        self._wake.set()

    @work(thread=True, group="overview")
    def _look_out(self) -> None:
        """Ask for everything now and then, in a thread of its own."""
        worker, pause = get_current_worker(), self.settings.tui_status_refresh_interval_ms / 1000
        with Client(self.settings) as client:
            reader = OverviewReader(client)
            while not worker.is_cancelled:
                self._wake.clear()
                found: Overview | AgentFlowError
                try:
                    found = reader.look()
                except AgentFlowError as error:
                    found = error
                if not worker.is_cancelled:
                    self.app.call_from_thread(self._seen, found)
                    self._wake.wait(pause)

    @property
    def _is_closing(self) -> bool:
        """Whether parts of it are gone already, one after another, while answers may still come in."""
        return not all(self.query(part) for part in _PARTS)

    def _seen(self, found: Overview | AgentFlowError) -> None:
        if self._is_closing:
            return
        if isinstance(found, Overview):
            self.overview, self.away_since = found, None
        elif isinstance(found, PrincipalAway):
            self.away_since = self.away_since or wall_ms()
        else:
            self.notify(str(found), severity="error")
        self._show()
        run = self.overview.run(self.run_id)
        if run is not None and not run.status.is_final and self._followed != self.run_id:
            self._follow(self.run_id)  # it was queued again

    def _show(self) -> None:
        """Every list from what is known now."""
        pattern = self.query_one("#filter", Input).value
        rows = workflow_rows(self.overview, pattern)
        self.query_one("#workflows", Rows).show(rows)
        runs = self.overview.runs_of("" if self.every_run else self.workflow_id)
        self.query_one("#runs", Rows).show(run_rows(runs), self._wanted_run)
        if self.overview.run(self._wanted_run) is not None:
            self._wanted_run = ""
        self.query_one("#agents", Rows).show(agent_rows(self.overview))
        self.query_one("#top", Static).update(top_line(self.settings, self.overview, self.away_since))
        shown = f"{len(rows)}/{len(self.overview.workflows)}" if pattern else str(len(rows))
        self.query_one("#workflows-part").border_title = f"Workflows ({shown})"
        self.query_one("#agents-part").border_title = f"Agents ({len(self.overview.agents)})"
        whose = "all workflows" if self.every_run else self.workflow_id or "no workflow"
        self.query_one("#runs-part").border_title = f"Runs of {whose} ({len(runs)})"

    @on(Rows.Chosen, "#workflows")
    def _workflow_chosen(self, event: Rows.Chosen) -> None:
        if self._is_closing:
            return
        self.workflow_id = event.key
        if not self.every_run:
            self.run_id = ""
        self._show()
        if not self.run_id:
            self.query_one(DagView).show_workflow(self.overview.workflow(self.workflow_id))

    @on(Rows.Chosen, "#runs")
    def _run_chosen(self, event: Rows.Chosen) -> None:
        if self._is_closing:
            return
        self.run_id = event.key
        self.query_one(RunLog).begin()
        if event.key:
            self._follow(event.key)
        else:
            self.workers.cancel_group(self, "run")
            self._followed = ""
            self.query_one(DagView).show_workflow(self.overview.workflow(self.workflow_id))

    @on(Input.Changed, "#filter")
    def _filtered(self) -> None:
        if not self._is_closing:
            self._show()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.query_one("#workflows").focus()

    @work(exclusive=True, group="run")
    async def _follow(self, run_id: str) -> None:
        """The chosen run, as it goes on."""
        self._followed = run_id
        log, dag = self.query_one(RunLog), self.query_one(DagView)
        log.begin()
        try:
            async for news in follow_run(self.settings, run_id, last=MOST_LINES):
                if isinstance(news, RunStanding):
                    dag.show_run(news)
                    self._wake.set()  # the list shall not lag behind
                elif not isinstance(news, Away):
                    log.add(news)
        except AgentFlowError as error:
            self.notify(str(error), severity="error")
        if self._followed == run_id:
            self._followed = ""

    def action_filter(self) -> None:
        self.query_one("#filter").focus()

    def action_clear(self) -> None:
        self.query_one("#filter", Input).value = ""
        self.query_one("#workflows").focus()

    def action_all_runs(self) -> None:
        self.every_run = not self.every_run
        self._show()

    def action_look(self) -> None:
        self._wake.set()

    def action_problems(self) -> None:
        self.app.push_screen(ProblemsScreen(self.overview.problems))

    def action_logs(self) -> None:
        self.app.push_screen(LogScreen(self.settings, workflow=self.workflow_id, run=self.run_id))

    def action_start(self) -> None:
        workflow = self.overview.workflow(self.workflow_id)
        if workflow is None:
            self.notify("Choose a workflow first", severity="warning")
            return

        def given(params: dict[str, Any] | None) -> None:
            if params is not None:
                self._start(workflow.id, params)

        self.app.push_screen(StartDialog(workflow), given)

    def action_cancel(self) -> None:
        run = self.overview.run(self.run_id)
        if run is None or run.status.is_final:
            self.notify("Choose a run that has not ended", severity="warning")
            return

        def given(reason: str | None) -> None:
            if reason is not None:
                self._cancel(run.run_id, reason)

        self.app.push_screen(CancelDialog(run), given)

    @work(thread=True, group="acts")
    def _start(self, workflow_id: str, params: dict[str, Any]) -> None:
        try:
            with fleet.connected(self.settings) as client:
                run_id = fleet.start(client, workflow_id, params)
        except AgentFlowError as error:
            self.app.call_from_thread(self.notify, str(error), severity="error")
            return
        self.app.call_from_thread(self._started, run_id)

    def _started(self, run_id: str) -> None:
        self._wanted_run = run_id
        self.notify(f"run {run_id}")
        self._wake.set()

    @work(thread=True, group="acts")
    def _cancel(self, run_id: str, reason: str) -> None:
        try:
            with fleet.connected(self.settings) as client:
                fleet.cancel(client, run_id, reason)
        except AgentFlowError as error:
            self.app.call_from_thread(self.notify, str(error), severity="error")
        self._wake.set()


_PATIENCE_MS = 1_500  # a person looks at it: an answer that takes longer is as good as none


class FleetApp(App[None]):
    """`afl fleet ui`."""

    TITLE = "AgentFlow fleet"
    CSS_PATH = "fleet.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, settings: FleetSettings) -> None:
        super().__init__()
        patience = min(settings.default_zmq_timeout_ms, _PATIENCE_MS)
        self.main = MainScreen(replace(settings, default_zmq_timeout_ms=patience))

    def get_default_screen(self) -> MainScreen:
        return self.main

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())
