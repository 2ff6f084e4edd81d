"""Log lines on the whole screen: live, or searched for in what is stored."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer, Input, RichLog, Static
from textual.worker import get_current_worker

from afl.cli.fleet_display import frame_text, line_text
from afl.fleet.messages import LogLine
from afl.fleet.settings import FleetSettings
from afl.kernel.clock import wall_ms
from afl.kernel.errors import AgentFlowError
from afl.operations.fleet import fleet
from afl.operations.fleet.fleet import LogFilter, LogQuery
from afl.operations.fleet.fleet_follow import follow_logs
from afl.operations.spans import read_span

_MOST_LINES = 20_000
_SINCE = "1d"


class LogScreen(Screen[None]):
    """The lines of a run, of a workflow, or of everything."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("t", "toggle_live", "Live/search"),
        Binding("v", "toggle_verbose", "Full form"),
        Binding("s", "toggle_scroll", "Stay at the end"),
        Binding("slash", "pattern", "Search"),
    ]

    def __init__(self, settings: FleetSettings, *, workflow: str = "", run: str = "") -> None:
        super().__init__()
        self._settings = settings
        self._workflow = workflow
        self._run = run
        self.live = True
        self.verbose = False
        self.lines: list[LogLine] = []

    def compose(self) -> ComposeResult:
        yield Static("", id="top", markup=False)
        with Horizontal(id="query"):
            yield Input(placeholder="regular expression", id="pattern")
            yield Input(_SINCE, placeholder="since: 30s, 10m, 2h, 1d; empty: all", id="since")
        yield RichLog(id="lines", max_lines=_MOST_LINES, wrap=True, highlight=False, markup=False)
        yield Static("", id="state", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        what = f"run {self._run}" if self._run else f"workflow {self._workflow}" if self._workflow else "all"
        self.query_one("#top", Static).update(Text.assemble(("Log lines ", "bold"), what))
        self.query_one("#lines").focus()
        self._begin()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.query_one("#lines").focus()
        self._begin()

    def action_back(self) -> None:
        self.workers.cancel_node(self)
        self.dismiss()

    def action_pattern(self) -> None:
        self.query_one("#pattern").focus()

    def action_toggle_live(self) -> None:
        self.live = not self.live
        self._begin()

    def action_toggle_verbose(self) -> None:
        self.verbose = not self.verbose
        log = self.query_one("#lines", RichLog)
        log.clear()
        for line in self.lines:
            log.write(self._shown(line))

    def action_toggle_scroll(self) -> None:
        log = self.query_one("#lines", RichLog)
        log.auto_scroll = not log.auto_scroll
        self._tell()

    def _begin(self) -> None:
        self.lines.clear()
        self.query_one("#lines", RichLog).clear()
        try:
            query = self._query()
            only = LogFilter(query)
        except AgentFlowError as error:
            self._tell(str(error))
            return
        self._tell()
        if self.live:
            self._follow(query, only)
        else:
            self._search(query)

    def _query(self) -> LogQuery:
        since = self.query_one("#since", Input).value.strip()
        start = wall_ms() - read_span(since) if since else None
        pattern = self.query_one("#pattern", Input).value
        return LogQuery(run=self._run, workflow=self._workflow, start=start, pattern=pattern)

    @work(exclusive=True, group="lines")
    async def _follow(self, query: LogQuery, only: LogFilter) -> None:
        try:
            async for lines in follow_logs(self._settings, query, only, last=_MOST_LINES // 2):
                self._add(lines)
        except AgentFlowError as error:
            self._tell(str(error))

    @work(exclusive=True, group="lines", thread=True)
    def _search(self, query: LogQuery) -> None:
        worker = get_current_worker()
        found: list[LogLine] = []
        try:
            with fleet.connected(self._settings) as client:
                for line in fleet.read_logs(client, query):
                    if worker.is_cancelled:
                        return
                    found.append(line)
        except AgentFlowError as error:
            self.app.call_from_thread(self._tell, str(error))
            return
        self.app.call_from_thread(self._add, found[-_MOST_LINES:])

    def _add(self, lines: list[LogLine]) -> None:
        if not self.query(RichLog):  # the screen closes while an answer comes in
            return
        log = self.query_one("#lines", RichLog)
        self.lines += lines
        del self.lines[:-_MOST_LINES]
        for line in lines:
            log.write(self._shown(line))
        self._tell()

    def _shown(self, line: LogLine) -> Text:
        if self.verbose:
            return Text(frame_text(line, verbose=True))
        return line_text(line, task=bool(self._run))

    def _tell(self, problem: str = "") -> None:
        if not self.query("#state"):
            return
        state = self.query_one("#state", Static)
        if problem:
            state.update(Text(problem, "red"))
            return
        scroll = "" if self.query_one("#lines", RichLog).auto_scroll else ", scrolling is up to you"
        state.update(f"{'live' if self.live else 'search'}: {len(self.lines)} lines{scroll}")
