"""The application: the main screen, and what holds on every screen."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from afl.cli.fleet_ui.main_screen import MainScreen
from afl.cli.fleet_ui.overlays import HelpScreen
from afl.fleet.settings import FleetSettings

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
