"""Setting up a fleet: a first folder, keys, and the settings in force."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from afl.fleet.errors import Problem
from afl.fleet.security import make_client_keys, make_keys
from afl.fleet.settings import FLEET_SETTINGS, FleetSettings, read_dotenv
from afl.fleet.workflow import Workflow
from afl.fleet.workflow_folder import WorkflowFolder
from afl.kernel.errors import InputError
from afl.kernel.setting_kinds import mask_url

EXAMPLE_ID = "example"
EXAMPLE = """# A first workflow: one task, then two side by side, then one that waits for both.
#   afl fleet run example --follow --param name=Ada
name: Example
description: Fetch something, look at it in two ways, put both together.
params:
  name: {type: string, default: world, description: Who is greeted.}
tasks:
  fetch:
    name: Fetch
    config: !Subprocess
      cmd: sh
      args: ["-c", "for n in 1 2 3; do echo page $n; sleep 0.3; done"]
  count:
    name: Count
    depends: [fetch]
    config: !Subprocess
      cmd: sh
      args: ["-c", "sleep 1; echo 3 pages"]
  check:
    name: Check
    depends: [fetch]
    retries: 1
    config: !Subprocess
      cmd: sh
      args: ["-c", "sleep 0.5; echo all pages are there"]
  report:
    name: Report
    depends: [count, check]
    config: !Subprocess {cmd: echo, args: ["hello, {{ params.name }}: done"]}
"""
_DOTENV_HEAD = """# Settings of principal, agents and clients, read from a file .env in the working directory.
# Copy this file to .env and remove the # of what you want to change; the environment wins over it.
"""


def init(folder: Path) -> list[Path]:
    """A folder with a workflow to begin with and a list of the settings; what is there stays as it is."""
    made: list[Path] = []
    files = {folder / "workflows" / f"{EXAMPLE_ID}.yml": EXAMPLE, folder / ".env.example": dotenv_example()}
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError as error:
            if not path.is_file():
                raise InputError(f"{path.parent} cannot be made: {error.strerror}") from error
            continue
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error
        made.append(path)
    return made


def dotenv_example() -> str:
    """Every setting with its default, commented out."""
    lines = [_DOTENV_HEAD]
    for row in FLEET_SETTINGS:
        lines.append(f"# {row.doc}\n# {row.variable}={row.default}\n")
    return "\n".join(lines)


def keys(folder: Path, *, client: bool = False) -> list[Path]:
    """A principal's pair of keys and a client's, or only a client's; what was made."""
    return make_client_keys(folder) if client else make_keys(folder)


def check(folder: Path) -> tuple[list[Workflow], list[Problem]]:
    """What a principal would make of a folder of workflow files."""
    files = WorkflowFolder(folder)
    files.refresh()
    return list(files.workflows.values()), list(files.problems)


@dataclass(frozen=True, slots=True)
class SettingLine:
    """A setting in force, and where its value comes from."""

    variable: str
    value: str
    source: str
    meaning: str


def setting_lines(
    settings: FleetSettings, given: Mapping[str, object], dotenv: Path = Path(".env")
) -> list[SettingLine]:
    """Every setting; `given` are those of the command line."""
    file = read_dotenv(dotenv)
    found = []
    for row in FLEET_SETTINGS:
        if given.get(row.name) is not None:
            source = "option"
        elif os.environ.get(row.variable):
            source = "environment"
        else:
            source = str(dotenv) if file.get(row.variable) else "default"
        value = mask_url(str(getattr(settings, row.name)))
        found.append(SettingLine(row.variable, value, source, row.doc))
    return found
