"""`afl fleet principal`, `agent`, `ui`, `init`, `check`, `keys` and `settings`."""

from __future__ import annotations

import asyncio
import importlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from afl.cli import options
from afl.cli.console import Table, output, print_json, say
from afl.cli.problems import file_problem
from afl.fleet.settings import FleetSettings, load_fleet_settings, missing_dotenv
from afl.kernel.errors import MissingExtraError, pip_install
from afl.kernel.observing import observe
from afl.kernel.settings import load_settings
from afl.operations.fleet import fleet_service
from afl.operations.fleet.fleet import settings_for
from afl.operations.fleet.fleet_service import PrincipalOptions, Ready, serve_agent, serve_principal
from afl.operations.spans import plural

Limit = Annotated[
    int | None,
    typer.Option(
        "--max-concurrent-workflows",
        "-m",
        min=1,
        max=10_000,
        metavar="N",
        help="How many workflows at a time, and tasks of each (CDKTR_AGENT_MAX_CONCURRENCY).",
    ),
]


def principal(
    with_agent: Annotated[
        bool, typer.Option("--with-agent", "-w", help="Also run workflows in this process.")
    ] = False,
    no_scheduler: Annotated[
        bool, typer.Option("--no-scheduler", "-n", help="Do not fire schedules.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on a network address without keys.")
    ] = False,
    workflows: Annotated[
        Path | None,
        typer.Option("--workflows", metavar="FOLDER", help="The workflow files (CDKTR_WORKFLOW_DIR)."),
    ] = None,
    host: options.Host = None,
    port: options.Port = None,
    listening: Annotated[
        int | None,
        typer.Option(
            "--logs-listening-port", metavar="PORT", help="For old agents (CDKTR_LOGS_LISTENING_PORT)."
        ),
    ] = None,
    publishing: Annotated[
        int | None,
        typer.Option(
            "--logs-publishing-port", metavar="PORT", help="Live lines (CDKTR_LOGS_PUBLISHING_PORT)."
        ),
    ] = None,
    limit: Limit = None,
) -> None:
    """Serve workflows, runs and logs until stopped.

    It listens on 127.0.0.1 unless told otherwise; any other address needs keys ([bold]afl fleet keys[/bold]), or
    an explicit --insecure: anyone who connects can run commands here.

    [bold]Examples[/bold]

      afl fleet principal --with-agent
      afl fleet principal --host 10.0.0.5
      CDKTR_DB_PATH=postgresql://db/fleet afl fleet principal --no-scheduler
    """
    settings = load_fleet_settings(
        {
            "principal_host": host,
            "principal_port": port,
            "logs_listening_port": listening,
            "logs_publishing_port": publishing,
            "workflow_dir": None if workflows is None else str(workflows),
        }
    )
    observe(load_settings(), "afl-fleet-principal", level=settings.logging_level)
    wanted = PrincipalOptions(
        with_agent=with_agent, scheduler=not no_scheduler, insecure=insecure, limit=limit
    )
    raise typer.Exit(serve_principal(settings, wanted, _say_ready))


def agent(
    suffix: Annotated[
        str | None,
        typer.Option("--suffix", "-s", metavar="TEXT", help="The end of its name; a random one by default."),
    ] = None,
    limit: Limit = None,
    host: options.Host = None,
    port: options.Port = None,
) -> None:
    """Fetch runs and start their processes, until stopped.

    SIGTERM and Ctrl+C let it finish what it runs; a second one ends that too. It survives an outage of the
    principal, and exits with 1 when nothing is left to run and the principal stays away.

    [bold]Examples[/bold]

      afl fleet agent
      afl fleet agent --suffix -gpu --max-concurrent-workflows 2
      CDKTR_PRINCIPAL_HOST=10.0.0.5 afl fleet agent
    """
    settings = settings_for(host, port)
    observe(load_settings(), "afl-fleet-agent", level=settings.logging_level)
    raise typer.Exit(asyncio.run(serve_agent(settings, suffix, limit)))


def ui(host: options.Host = None, port: options.Port = None) -> None:
    """Open the terminal interface: workflows, runs, DAG, agents, logs; start and cancel.

    [bold]?[/bold] shows the keys, [bold]q[/bold] leaves.

    [bold]Examples[/bold]

      afl fleet ui
      afl fleet ui --host 10.0.0.5
    """
    _open_ui(settings_for(host, port))


def _open_ui(settings: FleetSettings) -> None:
    try:
        module = importlib.import_module("afl.cli.fleet_ui.main_screen")
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "textual":
            raise
        raise MissingExtraError(
            f"textual is required for the terminal interface. Install it with: {pip_install('fleet')}"
        ) from missing
    module.FleetApp(settings).run()


def _say_ready(ready: Ready) -> None:
    log_port, live = ready.log_ports
    print(
        f"principal ready on {ready.address} (logs {log_port}, {live}), {plural(ready.workflows, 'workflow')}",
        flush=True,
    )
    if ready.problems:
        found = plural(ready.problems, "problem")
        say(f"{found} in workflow files: `afl fleet list` shows the details", "yellow")


def init(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="The folder. Default: this one.")] = Path(
        "."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Make a folder for workflow files with a first one, and a list of all settings.

    Existing files are not changed.

    [bold]Examples[/bold]

      afl fleet init
      afl fleet init ~/jobs
    """
    made = fleet_service.init(path)
    if as_json:
        print_json([str(each) for each in made])
        return
    for each in made:
        say(f"made {each}")
    if not made:
        say("everything exists already")
    here = "" if path == Path(".") else f"cd {path} && "
    say(Text.assemble("Now: ", (f"{here}afl fleet principal --with-agent", "bold")))
    say(Text.assemble("and elsewhere: ", (f"{here}afl fleet run example --follow --param name=Ada", "bold")))


def check(
    path: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="The folder (CDKTR_WORKFLOW_DIR).")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Look for mistakes in workflow files; no principal is needed. Exit code 1 if there are any.

    [bold]Examples[/bold]

      afl fleet check
      afl fleet check workflows --json
    """
    folder = path or Path(load_fleet_settings().workflow_dir).expanduser()
    workflows, problems = fleet_service.check(folder)
    if as_json:
        print_json({"workflows": [each.id for each in workflows], "problems": msgspec.to_builtins(problems)})
    else:
        for each in problems:
            say(file_problem(each.path, each.line, each.key, each.message, is_here=True))
        say(f"{plural(len(workflows), 'workflow')}, {plural(len(problems), 'problem')}")
    if problems:
        raise typer.Exit(1)


def keys(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="The folder (CDKTR_KEYS_DIRECTORY).")
    ] = None,
    client: Annotated[
        bool, typer.Option("--client", help="Only a key pair for this machine; the principal runs elsewhere.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make the keys that a fleet on several machines needs.

    The principal uses them from its next start on, and lets in whose public key is in the folder
    [bold]allowed[/bold]. On any other machine: [bold]--client[/bold], then copy its client.key into the principal's
    allowed under a unique name, and the principal's principal.key here. Secret keys stay where they are.

    [bold]Examples[/bold]

      afl fleet keys
      afl fleet keys --client
      afl fleet keys ./keys --json
    """
    made = fleet_service.keys(folder or load_fleet_settings().keys_folder, client=client)
    if as_json:
        print_json([str(each) for each in made])
        return
    for each in made:
        say(
            Text.assemble("made ", str(each), (" (secret)", "yellow") if each.suffix == ".key_secret" else "")
        )


def settings(host: options.Host = None, port: options.Port = None, as_json: options.AsJson = False) -> None:
    """List every setting with its value and its source.

    [bold]Examples[/bold]

      afl fleet settings
      CDKTR_LOG_LEVEL=DEBUG afl fleet settings --json
    """
    given = {"principal_host": host, "principal_port": port}
    found = fleet_service.setting_lines(settings_for(host, port), given)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    shown = Table("VARIABLE", "VALUE", "SOURCE", "MEANING", below=["MEANING"])
    for each in found:
        changed = each.source != "default"
        shown.add(
            each.variable,
            Text(each.value, "cyan" if changed else ""),
            Text(each.source, "" if changed else "dim"),
            Text(each.meaning, "dim"),
        )
    shown.print(output())
    if missing := missing_dotenv():
        say(f"{missing}; the environment and the defaults hold", "dim")
