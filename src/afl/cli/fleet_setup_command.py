"""`afl fleet init`, `check`, `keys` and `settings`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from afl.cli import options
from afl.cli.console import output, print_json, say
from afl.cli.tables import Table
from afl.fleet.settings import load_fleet_settings, missing_dotenv
from afl.operations.fleet import fleet_setup
from afl.operations.fleet.fleet import settings_for


def init(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="The folder; this one.")] = Path("."),
    as_json: options.AsJson = False,
) -> None:
    """Make a folder for workflow files with a first one, and a list of all settings.

    What is there already stays as it is.

    [bold]Examples[/bold]

      afl fleet init
      afl fleet init ~/jobs
    """
    made = fleet_setup.init(path)
    if as_json:
        print_json([str(each) for each in made])
        return
    for each in made:
        say(f"made {each}")
    if not made:
        say("everything is there already")
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
    workflows, problems = fleet_setup.check(folder)
    if as_json:
        print_json({"workflows": [each.id for each in workflows], "problems": msgspec.to_builtins(problems)})
    else:
        for each in problems:
            say(str(each), "red")
        say(f"{len(workflows)} workflows, {len(problems)} problems")
    if problems:
        raise typer.Exit(1)


def keys(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="The folder (CDKTR_KEYS_DIRECTORY).")
    ] = None,
    client: Annotated[
        bool, typer.Option("--client", help="Only a pair for this machine, where the principal is another.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make the keys that a fleet on several machines needs.

    The principal uses them from its next start on, and lets in whose public key is in the folder
    [bold]allowed[/bold]. On any other machine: [bold]--client[/bold], then copy its client.key into the principal's
    allowed under a name of its own, and the principal's principal.key here. Secrets stay where they are.

    [bold]Examples[/bold]

      afl fleet keys
      afl fleet keys --client
      afl fleet keys ./keys --json
    """
    made = fleet_setup.keys(folder or load_fleet_settings().keys_folder, client=client)
    if as_json:
        print_json([str(each) for each in made])
        return
    for each in made:
        say(
            Text.assemble("made ", str(each), (" (secret)", "yellow") if each.suffix == ".key_secret" else "")
        )


def settings(host: options.Host = None, port: options.Port = None, as_json: options.AsJson = False) -> None:
    """List every setting with its value and where that comes from.

    [bold]Examples[/bold]

      afl fleet settings
      CDKTR_LOG_LEVEL=DEBUG afl fleet settings --json
    """
    given = {"principal_host": host, "principal_port": port}
    found = fleet_setup.setting_lines(settings_for(host, port), given)
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
