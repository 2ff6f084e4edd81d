"""The commands by name, each loaded when it is called: `afl --help` must not pay for the runtime."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from afl import __version__
from afl.cli import collector
from afl.cli.help_text import CONTEXT, HelpCommand, HelpGroup, HelpTyper
from afl.kernel.errors import MissingExtraError
from afl.kernel.near_names import near_name


class Entry(NamedTuple):
    """Where a command lives, and its line in the list."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "run": Entry("run_command", "run", "Run a workflow; its result is printed as JSON."),
    "resume": Entry("run_command", "resume", "Continue a run that was interrupted or is waiting."),
    "submit": Entry("submit_command", "submit", "Store a run for any server to pick up."),
    "agent": Entry("agent_command", "agent", "Work on tasks with the functions of a module."),
    "runner": Entry("agent_command", "runner", "Evaluate runs, fire schedules and maintain the store."),
    "wait": Entry("submit_command", "wait", "Wait until a run ends."),
    "list": Entry("list_command", "list_", "List runs."),
    "states": Entry("list_command", "states", "Count runs by state."),
    "show": Entry("show_command", "show", "Show a run: its steps with state, duration and error."),
    "logs": Entry("logs_command", "logs", "Print the log of a run; -f follows it."),
    "diff": Entry("diff_command", "diff", "Compare two runs."),
    "query": Entry("query_command", "query", "Read values that a run has published."),
    "why": Entry("why_command", "why", "Explain why a run, step, task or server is stuck."),
    "tasks": Entry("work_command", "tasks", "List tasks: the work of agents."),
    "ps": Entry("work_command", "ps", "List the servers: liveness, handlers, load."),
    "retry": Entry("control_command", "retry", "Retry the failed steps of a run."),
    "rerun": Entry("again_command", "rerun", "Start a run again, with the same or other inputs."),
    "fork": Entry(
        "again_command", "fork", "Start a run again from a step; steps that do not depend on it are kept."
    ),
    "cancel": Entry("control_command", "cancel", "End a run and its tasks."),
    "pause": Entry("control_command", "pause", "Pause a run."),
    "unpause": Entry("control_command", "unpause", "Continue a paused run."),
    "bulk": Entry("bulk_command", "bulk", "Retry, cancel, pause, unpause or prune many runs at once."),
    "signal": Entry("signal_command", "signal", "Deliver a signal to a run that waits for it."),
    "approvals": Entry("approvals_command", "approvals", "List and answer approvals."),
    "flows": Entry("flows_command", "flows", "Publish, list and show stored sources."),
    "schedule": Entry("schedule_command", "schedule", "Start a workflow on a schedule."),
    "schedules": Entry("schedule_command", "schedules", "List, pause and remove schedules."),
    "doctor": Entry("maintenance_command", "doctor", "Check the store, its files and its servers."),
    "prune": Entry("maintenance_command", "prune", "Delete old runs."),
    "copy": Entry("maintenance_command", "copy", "Copy a store from SQLite to PostgreSQL."),
    "check": Entry("compile_command", "check", "Check sources and report every error."),
    "compile": Entry("compile_command", "compile_", "Compile sources to JSON (also: afl FILE)."),
    "fmt": Entry("compile_command", "fmt", "Format sources."),
    "lsp": Entry("lsp_command", "lsp", "Serve editors over the Language Server Protocol."),
    "coord": Entry("coord_command", "coord", "Messages, agents and circuit breakers on Redis."),
    "fleet": Entry("fleet_command", "fleet", "Run DAGs of processes on a fleet of agents."),
    "turns": Entry("turns_command", "turns", "Agents that converse and call tools."),
    "dashboard": Entry("dashboard_command", "dashboard", "Serve the dashboard and the HTTP API."),
    "mcp": Entry("mcp_command", "mcp", "Serve tools to models over the Model Context Protocol."),
    "up": Entry("servers_command", "up", "Start local PostgreSQL, Redis and NATS, without containers."),
    "down": Entry("servers_command", "down", "Stop the local servers."),
    "status": Entry("servers_command", "status", "Show the local servers."),
}
_PANELS = {
    "Run": ("run", "resume", "submit", "wait"),
    "Inspect": ("list", "states", "show", "logs", "diff", "query", "why", "tasks", "ps"),
    "Operate": (
        *("retry", "rerun", "fork", "cancel", "pause", "unpause", "bulk", "signal", "approvals", "flows"),
        *("schedule", "schedules", "doctor", "prune", "copy"),
    ),
    "Serve": ("agent", "runner", "dashboard", "mcp", "up", "down", "status"),
    "Develop": ("check", "compile", "fmt", "lsp"),
    "Other parts": ("coord", "fleet", "turns"),
}
_OWN_OPTIONS = ("--help", "-h", "--version", "--install-completion", "--show-completion")


class LazyGroup(HelpGroup):
    """Knows every command by its line; the command itself is imported when it is the one to run."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in _PANELS.values() for name in names]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        return HelpCommand(cmd_name, help=entry.summary, rich_markup_mode=None)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel, names in _PANELS.items():
            with formatter.section(panel):
                formatter.write_dl([(name, COMMANDS[name].summary) for name in names])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is None:
            return name, None, rest
        try:
            loaded = load_command(str(command.name))
            collector.keep_loaded()
            return name, loaded, rest
        except MissingExtraError as missing:
            if not {"-h", "--help"} & set(rest):
                raise
            note = f"{command.help}\n\nNot installed here: {missing}"
            return (
                name,
                HelpCommand(name, help=note, rich_markup_mode=None, context_settings=CONTEXT),
                ["--help"],
            )


def load_command(name: str) -> Any:
    """A command with its parameters, by its name in COMMANDS."""
    entry = COMMANDS[name]
    return _command(vars(importlib.import_module(f"afl.cli.{entry.module}"))[entry.function], name)


@cache  # it takes a hundredth of a second, and a process may be given many commands
def _command(function: Any, name: str) -> Any:
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    single = HelpTyper(add_completion=False)
    single.command(name)(function)
    return typer.main.get_command(single)


app = HelpTyper(cls=LazyGroup, pretty_exceptions_enable=False, no_args_is_help=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"afl {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """AgentFlow: a durable runtime for agents.

    [bold]afl run news.afl --agent agents.py --input topic=science[/bold]

    Every run is kept in a store and can be resumed; without AFL_STORE it is
    the file .afl/afl.db here.
    Results go to standard output, all else to standard error. Exit code:
    0 completed or paused, 1 failed, 2 usage error, 3 timed out,
    130 interrupted.
    """


def main(args: Sequence[str] | None = None) -> int:
    """The command `afl`; the exit code."""
    given = list(sys.argv[1:] if args is None else args)
    try:
        problem = _unknown(given)
        if problem:
            return _refuse(problem)
        code = typer.main.get_command(app)(_dispatched(given), prog_name="afl", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return 130
    except typer.Abort:  # at a question
        return 1
    except Exception as error:
        if hasattr(error, "format_message"):  # Typer's own; their base has not been public for long
            context = getattr(error, "ctx", None)
            return _refuse(_unknown_option(error, context) or error.format_message(), context)
        if os.environ.get("AFL_DEBUG"):
            raise
        from afl.cli.problems import report  # noqa: PLC0415  rich is not loaded for nothing

        report(error)
        return 1


def _refuse(message: str, context: typer.Context | None = None) -> int:
    """Say what is wrong with the command; a group without a command shows its help."""
    if message.startswith("Usage: "):
        typer.echo(message)
        return 2
    from afl.cli.problems import report_usage  # noqa: PLC0415  as above

    report_usage(message, context.command_path if context is not None else "afl")
    return 2


def _unknown_option(error: Exception, context: typer.Context | None) -> str:
    """For an option that is an argument, such as `--workflow X` of `afl run`: how to write it."""
    name = getattr(error, "option_name", "").lstrip("-").replace("-", "_")
    if context is None or not any(
        each.param_type_name == "argument" and each.name == name for each in context.command.params
    ):
        return ""
    pieces = (piece.strip("{}") for piece in context.command.collect_usage_pieces(context))
    return f"{name} is an argument, not an option: {context.command_path} {' '.join(pieces)}"


def _dispatched(given: list[str]) -> list[str]:
    """What is no command is something to compile: `afl news.afl`, `afl -o out.json news.afl`, `afl < news.afl`."""
    if not given:
        return [] if sys.stdin.isatty() else ["compile"]
    return (
        given if given[0] in COMMANDS or given[0].partition("=")[0] in _OWN_OPTIONS else ["compile", *given]
    )


def _unknown(given: list[str]) -> str:
    """The text for a first word that is neither a command nor a file."""
    word = given[0] if given else ""
    if word in COMMANDS or not word.isalpha() or Path(word).exists():
        return ""
    near = near_name(word, COMMANDS)
    return f"there is no command {word!r}" + (f"; did you mean {near!r}?" if near else ", and no such file")
