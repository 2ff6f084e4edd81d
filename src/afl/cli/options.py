"""Options and arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from afl.cli.completion import run_ids, task_lists, workflow_names
from afl.cli.help_text import HelpTyper


def command_group(text: str = "", *, runs_without_command: bool = False) -> typer.Typer:
    """A group of commands; one that `runs_without_command` has a callback that works without a command.

    Without a text, its help is the docstring of the callback.
    """
    about: dict[str, Any] = {"help": text} if text else {}
    return HelpTyper(
        **about,
        add_completion=False,
        invoke_without_command=runs_without_command,
        no_args_is_help=not runs_without_command,
    )


def checked_pairs(given: list[str] | None) -> list[str] | None:
    """Refuse an input that is not written name=value, as wrong usage."""
    for pair in given or ():
        if not pair.partition("=")[1] or pair.startswith("="):
            raise typer.BadParameter(f"an input is written name=value, got {pair!r}")
    return given


def checked_id(given: str | None) -> str | None:
    """Refuse an empty id, as of `--id "$ORDER"` without an ORDER: repeating the command would do it again."""
    if given == "":
        raise typer.BadParameter("the id is empty; without --id one is generated")
    return given


File = Annotated[Path, typer.Argument(metavar="FILE", help="The source of the workflow.")]
Workflow = Annotated[
    str | None,
    typer.Argument(
        metavar="WORKFLOW", help="Which workflow, if the file has several.", autocompletion=workflow_names
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="NAME=VALUE",
        callback=checked_pairs,
        help="An input, parsed as JSON if its type allows. Repeatable.",
    ),
]
InputsObject = Annotated[
    str | None,
    typer.Option(
        "--inputs", metavar="FILE", help="Inputs as a JSON object, or a file with one; --input wins."
    ),
]
Libraries = Annotated[
    list[Path] | None, typer.Option("--library", metavar="FILE", help="A library source. Repeatable.")
]
TaskList = Annotated[
    str | None,
    typer.Option(
        "--task-list",
        metavar="NAME",
        help="The task list of its work (AFL_TASK_LIST).",
        autocompletion=task_lists,
    ),
]
Store = Annotated[str | None, typer.Option("--store", metavar="URL", help="Where runs are kept (AFL_STORE).")]
Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="Ask this server instead of a store (AFL_SERVER, AFL_TOKEN)."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Bus = Annotated[
    str | None,
    typer.Option("--bus", metavar="URL", help="local, or the address of a NATS server (AFL_BUS)."),
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="The agents' project (AFL_PROJECT).")
]
Redis = Annotated[str | None, typer.Option("--redis", metavar="URL", help="The Redis server (AFL_REDIS).")]
Prefix = Annotated[str, typer.Option("--prefix", metavar="PREFIX", help="The prefix of the keys.")]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="HOST", help="The principal's address (CDKTR_PRINCIPAL_HOST)."),
]
Port = Annotated[
    int | None,
    typer.Option("--port", "-p", metavar="PORT", help="Its port for requests (CDKTR_PRINCIPAL_PORT)."),
]
Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="The run's id, or its first characters.", autocompletion=run_ids),
]
RunId = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="ID",
        callback=checked_id,
        help="The id of the run: repeating the same start gives the same run.",
    ),
]
RunName = Annotated[str, typer.Option("--name", metavar="NAME", help="What the run is called in lists.")]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="KEY=VALUE", help="A tag to find the run by. Repeatable."),
]
BudgetUsd = Annotated[
    float | None, typer.Option("--budget-usd", min=0, metavar="USD", help="What its models may cost.")
]
BudgetTokens = Annotated[
    int | None,
    typer.Option("--budget-tokens", min=0, metavar="N", help="How many tokens its models may use."),
]
