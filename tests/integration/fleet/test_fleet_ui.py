"""The terminal interface, driven by Textual's pilot, against a real principal and a real agent."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.fleet_agents import running_agent
from support.principals import PrincipalProcess, running_principal
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, Select, Static

from afl.cli.fleet_ui.dialogs import CancelDialog, HelpScreen, ProblemsScreen, StartDialog
from afl.cli.fleet_ui.log_screen import LogScreen
from afl.cli.fleet_ui.main_screen import FleetApp, MainScreen
from afl.cli.fleet_ui.panels import DagView, Rows, RunLog
from afl.fleet.messages import Status
from afl.fleet.settings import FleetSettings
from afl.operations.fleet.fleet_view import Overview, OverviewReader

FLOW = """
name: Flow
params:
  word: string
  size: {type: integer, default: 2}
  loud: {type: boolean, default: false}
  kind: {type: string, choices: [small, big], default: big}
tasks:
  say: {name: Say, config: !Subprocess {cmd: echo, args: ["{{ params.word }} {{ params.size }} {{ params.kind }}"]}}
  end: {name: End, depends: [say], config: !Subprocess {cmd: echo, args: ["loud {{ params.loud }}"]}}
"""
SLOW = "name: Slow\ntasks: {a: {name: A, config: !Subprocess {cmd: sleep, args: ['600']}}}\n"
NEVER = SLOW.replace("Slow", "Never")
VAIN = f"""
name: Vain
tasks: {{a: {{name: A, working_directory: "/no/{"folder " * 20}last", config: !Subprocess {{cmd: "true"}}}}}}
"""
WORKFLOWS = ["etl.flow", "hello", "never_run", "slow", "vain"]  # `hello` comes with the principal
Story = Callable[[Pilot[None], MainScreen], Awaitable[None]]


@pytest.fixture(scope="module")
def principal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrincipalProcess]:
    folder = tmp_path_factory.mktemp("ui")
    texts = {"etl/flow": FLOW, "never_run": NEVER, "slow": SLOW, "vain": VAIN, "bad": "name: Bad\ntaks: {}\n"}
    for name, text in texts.items():
        (folder / "workflows" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "workflows" / f"{name}.yml").write_text(text)
    with running_principal(folder) as principal, running_agent(principal.settings, folder / "agent"):
        yield principal


def played(settings: FleetSettings, story: Story) -> None:
    """Play a story on a screen of 120 x 40 that is drawn ten times a second: most of the time goes into drawing."""
    quick = replace(settings, tui_status_refresh_interval_ms=300)

    async def playing() -> None:
        app = FleetApp(quick)
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: bool(app.main.overview.agents) and bool(app.main.workflow_id))
            await story(pilot, app.main)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textual.screen.UPDATE_PERIOD", 0.1)
        asyncio.run(playing())


async def until(pilot: Pilot[None], look: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not look():
            await pilot.pause(0.02)


def stands(main: MainScreen, status: Status) -> bool:
    """Whether the graph shows the chosen run in this state; before its first answer it shows the one chosen before."""
    standing = main.query_one(DagView).standing
    return standing is not None and (standing.run.run_id, standing.run.status) == (main.run_id, status)


def top(pilot: Pilot[None]) -> Screen[Any]:
    """The screen that is shown now."""
    return pilot.app.screen


def screen_text(pilot: Pilot[None]) -> str:
    return html.unescape(pilot.app.export_screenshot()).replace("\xa0", " ")


async def press_start(pilot: Pilot[None], main: MainScreen, **values: str) -> None:
    """Start the chosen workflow with these parameters, and wait until its run is chosen."""
    before = main.run_id
    await pilot.press("r")
    dialog = pilot.app.screen
    assert isinstance(dialog, StartDialog)
    for name, value in values.items():
        dialog.query_one(f"#param-{name}", Input).value = value
    await pilot.click("#go")
    await until(pilot, lambda: main.run_id != before and main.overview.run(main.run_id) is not None)


async def choose(pilot: Pilot[None], main: MainScreen, workflow_id: str) -> None:
    await pilot.press("slash", *workflow_id.replace(".", "*"), "enter")
    await until(pilot, lambda: main.workflow_id == workflow_id)


def test_what_is_there_is_listed(principal: PrincipalProcess) -> None:
    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        assert list(main.query_one("#workflows", Rows).keys) == WORKFLOWS
        assert main.workflow_id == "etl.flow"
        assert main.query_one("#agents", Rows).row_count == 1
        assert "connected" in str(main.query_one("#top", Static).render())
        await choose(pilot, main, "never_run")
        await until(pilot, lambda: main.query_one(DagView).border_title == "Workflow never_run")

    played(principal.settings, story)


def test_workflows_are_filtered_by_a_regular_expression(principal: PrincipalProcess) -> None:
    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        table = main.query_one("#workflows", Rows)
        await pilot.press("slash", *"^(hel|sl)")
        await until(pilot, lambda: list(table.keys) == ["hello", "slow"])
        await pilot.press(*"[")  # no expression: looked for as it stands
        await until(pilot, lambda: list(table.keys) == [])
        await pilot.press("escape")
        await until(pilot, lambda: list(table.keys) == WORKFLOWS)
        assert main.focused is table

    played(principal.settings, story)


def test_answers_that_come_while_the_screen_is_closed_are_passed_over(
    principal: PrincipalProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Overview] = []

    class Counted(OverviewReader):
        def look(self) -> Overview:
            looks.append(super().look())
            return looks[-1]

    monkeypatch.setattr("afl.cli.fleet_ui.main_screen.OverviewReader", Counted)

    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        await main.query_one("#workflows").remove()  # as closing does, part after part
        gone = len(looks)
        await until(pilot, lambda: len(looks) > gone + 2)

    played(principal.settings, story)


def test_a_run_is_started_with_its_parameters_and_followed(principal: PrincipalProcess) -> None:
    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        await press_start(pilot, main, word="$HOME", size="3")
        await until(pilot, lambda: main.query_one(RunLog).count == 2)
        dag = main.query_one(DagView)
        await until(pilot, lambda: stands(main, Status.COMPLETED))
        shown = [row.text for row in main.query_one(RunLog).lines]
        assert shown[0].rstrip().endswith("Say  $HOME 3 big")
        assert shown[1].rstrip().endswith("End  loud false")
        assert dag.border_title == f"Run {main.run_id}"
        run = main.overview.run(main.run_id)
        assert run is not None
        assert run.params == {"word": "$HOME", "size": 3, "loud": False, "kind": "big"}

    played(principal.settings, story)


def test_the_reason_of_a_run_that_failed_is_shown_in_full(principal: PrincipalProcess) -> None:
    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        await choose(pilot, main, "vain")
        await press_start(pilot, main)
        await until(pilot, lambda: stands(main, Status.FAILED))
        await until(pilot, lambda: "last'" in screen_text(pilot))

    played(principal.settings, story)


def test_parameters_that_do_not_fit_are_told_before_anything_starts(principal: PrincipalProcess) -> None:
    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        before = len(main.overview.runs)
        await pilot.press("r")
        dialog = pilot.app.screen
        assert isinstance(dialog, StartDialog)
        dialog.query_one("#param-size", Input).value = "many"
        assert isinstance(dialog.query_one("#param-loud"), Select)
        await pilot.press("enter")
        wrong = dialog.query_one("#wrong", Static)
        await until(pilot, lambda: "'size'" in str(wrong.render()))
        await pilot.press("escape")
        assert top(pilot) is main
        assert len(main.overview.runs) == before

    played(principal.settings, story)


def test_a_run_is_canceled_with_a_reason(principal: PrincipalProcess) -> None:
    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        await choose(pilot, main, "slow")
        await press_start(pilot, main)
        await until(pilot, lambda: main.overview.open_runs == 1)
        run_id = main.run_id
        await pilot.press("c")
        assert isinstance(top(pilot), CancelDialog)
        await pilot.press("escape", "c", "tab", "shift+tab", *"why", "enter")
        await until(pilot, lambda: main.overview.open_runs == 0)
        run = main.overview.run(run_id)
        assert run is not None
        assert (run.status, run.cancel_reason) == (Status.CANCELED, "why")
        await pilot.press("c")
        assert top(pilot) is main  # there is nothing to cancel

    played(principal.settings, story)


def test_runs_of_all_workflows_or_of_one(principal: PrincipalProcess) -> None:
    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        await press_start(pilot, main, word="a")
        await choose(pilot, main, "hello")
        await until(pilot, lambda: main.query_one("#runs", Rows).row_count == 0)
        await press_start(pilot, main)
        runs = main.query_one("#runs", Rows)
        await until(pilot, lambda: runs.row_count == 1)
        await pilot.press("a")
        await until(pilot, lambda: runs.row_count > 1)
        chosen = main.run_id
        runs.focus()
        await pilot.press("down")
        await until(pilot, lambda: main.run_id not in (chosen, ""))
        await until(pilot, lambda: main.query_one(DagView).border_title == f"Run {main.run_id}")

    played(principal.settings, story)


def test_lines_are_followed_and_searched_on_a_screen_of_their_own(principal: PrincipalProcess) -> None:
    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        await press_start(pilot, main, word="needle")
        await until(pilot, lambda: main.query_one(RunLog).count == 2)
        await pilot.press("l")
        screen = pilot.app.screen
        assert isinstance(screen, LogScreen)
        await until(pilot, lambda: len(screen.lines) == 2)
        await pilot.press("v")
        await until(pilot, lambda: screen.verbose)
        await pilot.press("t", "slash", *"^STDOUT need", "enter")
        await until(pilot, lambda: [line.payload for line in screen.lines] == ["STDOUT needle 2 big"])
        state = screen.query_one("#state", Static)
        await until(pilot, lambda: "search: 1 lines" in str(state.render()))
        await pilot.press("s")
        await until(pilot, lambda: "up to you" in str(state.render()))
        await pilot.press("slash", *"(", "enter")
        await until(pilot, lambda: "not a regular expression" in str(state.render()))
        await pilot.press("escape")
        assert top(pilot) is main

    played(principal.settings, story)


def test_help_and_problems_are_overlays(principal: PrincipalProcess) -> None:
    async def story(pilot: Pilot[None], main: MainScreen) -> None:
        await pilot.press("question_mark")
        assert isinstance(top(pilot), HelpScreen)
        await pilot.press("escape", "p")
        assert isinstance(top(pilot), ProblemsScreen)
        assert "did you mean 'tasks'?" in screen_text(pilot)
        await pilot.press("escape")
        assert top(pilot) is main
        await pilot.press("l", "question_mark", "escape", "escape")
        assert top(pilot) is main

    played(principal.settings, story)


def test_a_principal_that_goes_away_and_comes_back_is_told(tmp_path: Path) -> None:
    with running_principal(tmp_path) as principal, running_agent(principal.settings, tmp_path / "agent"):
        settings = replace(principal.settings, default_zmq_timeout_ms=200)

        async def story(pilot: Pilot[None], main: MainScreen) -> None:
            top = main.query_one("#top", Static)
            await asyncio.to_thread(principal.kill)
            await until(pilot, lambda: "no answer" in str(top.render()))
            assert main.workflow_id == "hello"  # what was known stays on the screen
            await asyncio.to_thread(principal.start)
            await until(pilot, lambda: "connected" in str(top.render()))

        played(settings, story)
