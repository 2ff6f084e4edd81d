"""`afl turns worker` and `afl turns chat`: where turns are worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.clients import chosen
from afl.cli.console import say
from afl.cli.interruption import left_behind
from afl.kernel.errors import InputError
from afl.kernel.log import configure_logging
from afl.kernel.observing import observe
from afl.kernel.setting_kinds import mask_url
from afl.kernel.settings import Settings

if TYPE_CHECKING:
    from afl.operations.turn.turn_service import TurnModule

Module = Annotated[
    str, typer.Argument(metavar="MODULE[:NAME]", help="A file or module that declares agents.")
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="MODULE:NAME",
        help="The model that the agents use, or the name of one: openai:gpt-5-mini.",
    ),
]


def worker(
    module: Module,
    model: ModelName = "",
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", min=1, max=10_000, help="How many turns at a time.")
    ] = 64,
    max_steps: Annotated[
        int, typer.Option("--max-steps", min=1, max=10_000, help="How many steps a turn may have.")
    ] = 8,
    suspend_timeout: Annotated[
        float,
        typer.Option(
            "--suspend-timeout", min=0.001, metavar="SECONDS", help="How long at least a tool may take."
        ),
    ] = 30.0,
    shutdown: Annotated[
        float,
        typer.Option(
            "--shutdown-timeout",
            min=0,
            metavar="SECONDS",
            help="How long turns may continue after a stop signal.",
        ),
    ] = 30.0,
    store: options.Store = None,
    bus: options.Bus = None,
    project: options.Project = None,
) -> None:
    """Work on the turns of a module's agents, until stopped.

    On one SQLite file without a server, or on PostgreSQL and NATS; any number of them share the work, and
    any worker takes over the turns of one that dies. SIGTERM and Ctrl+C end it gracefully.

    [bold]Examples[/bold]

      afl turns worker agents.py
      afl turns worker agents.py --store postgresql://db/afl --bus nats://bus:4222 --concurrency 100
    """
    from afl.operations.turn.turn_service import (  # noqa: PLC0415
        WorkerOptions,
        load_turn_module,
        serve,
    )
    from afl.operations.work.alerting import alerting_beside  # noqa: PLC0415  for the same reason

    settings = chosen(store, bus=bus, project=project)
    offered = load_turn_module(module, model)  # what is wrong with it is told before there is a store
    observe(settings, "afl-turns")
    chosen_options = WorkerOptions(concurrency, max_steps, suspend_timeout, shutdown)
    with left_behind(), alerting_beside(settings):
        serve(settings, offered, chosen_options, lambda: _greet(settings, offered, concurrency))
        say("Stopped.", "dim")


def chat(
    agent: Annotated[
        str, typer.Argument(metavar="[AGENT]", help="The agent's id; the only one of the module.")
    ] = "",
    module: Annotated[
        str, typer.Option("--module", "-m", metavar="MODULE[:NAME]", help="Where agents are declared.")
    ] = "",
    model: ModelName = "",
    question: Annotated[
        list[str] | None,
        typer.Option("--say", metavar="TEXT", help="Say this, print the answer, and end. Repeatable."),
    ] = None,
    after: Annotated[
        str,
        typer.Option(
            "--after", metavar="TURN", help="Continue from that turn; with an agent, from its last one."
        ),
    ] = "",
    store: options.Store = None,
    bus: options.Bus = None,
    project: options.Project = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per answer.")] = False,
) -> None:
    """Talk to an agent in the terminal; its reply is streamed.

    With --module everything runs in this process; without it the agent's workers are elsewhere.

    Ctrl+C stops the current answer, Ctrl+D ends the conversation. It is kept: --after continues it.
    With --say, exit code 1 means that a turn did not succeed.

    [bold]Examples[/bold]

      afl turns chat guide --module agents.py
      afl turns chat guide --module agents.py --after guide
      afl turns chat guide --module agents.py --say "Is it warm in Oslo?"
    """
    from afl.cli.turns_chat import converse  # noqa: PLC0415  for the reason above
    from afl.operations.turn.turn_service import load_turn_module  # noqa: PLC0415

    settings = chosen(store, bus=bus, project=project)
    offered = load_turn_module(module, model) if module else None
    if offered is None and not agent:
        raise InputError("say which agent, or give the module that declares it: --module agents.py")
    configure_logging("ERROR")  # what a worker has to say would stand between the words
    name = offered.agent(agent).agent_id if offered is not None else agent
    with left_behind():
        answered = converse(settings, offered, name, after, questions=question or (), as_json=as_json)
    if not answered:
        raise typer.Exit(1)


def _greet(settings: Settings, offered: TurnModule, concurrency: int) -> None:
    names = ", ".join(agent.agent_id for agent in offered.agents)
    greeting = Text.assemble(
        ("afl-turns", "bold"),
        f" serves {names}\n  of project {settings.project} in {mask_url(settings.store)}, bus "
        f"{mask_url(settings.bus)}, {concurrency} turns at a time; Ctrl+C ends it.",
    )
    say(greeting)
    for why, agents in offered.unavailable().items():
        say(f"{why}; turns of {', '.join(agents)} will fail.", "yellow")
