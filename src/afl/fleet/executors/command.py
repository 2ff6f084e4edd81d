"""The command of a task: a program with its arguments, variables and folder. No shell is involved.

The command of a `!Ray` task is a driver process beside the agent that runs the work on the cluster.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from afl.fleet.workflow import Ray, Subprocess, Task, UvPython
from afl.kernel.errors import MissingExtraError, pip_install

_DRIVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ray_driver.py")


def check_ray() -> None:
    """Raise MissingExtraError, with the command to install it, without Ray."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError(f"!Ray tasks need Ray: {pip_install('ray')}")


def ray_argv(config: Ray, task: Task) -> tuple[str, ...]:
    """Run the driver by its path: what it sends to the cluster must not import AgentFlow."""
    check_ray()
    work = {
        "argv": [config.cmd, *config.args] if config.cmd is not None else None,
        "function": config.function,
        "args": list(config.args),
        "env": dict(task.env),
        "folder": task.working_directory,
        "address": config.address,
        "options": {
            name: value
            for name, value in (
                ("num_cpus", config.num_cpus),
                ("num_gpus", config.num_gpus),
                ("resources", dict(config.resources) or None),
                ("runtime_env", dict(config.runtime_env) or None),
            )
            if value is not None
        },
    }
    return (sys.executable, "-P", _DRIVER, msgspec.json.encode(work).decode())


@dataclass(frozen=True, slots=True)
class Command:
    """A process to start."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # added to the agent's own
    folder: str | None = None


def command_of(task: Task) -> Command:
    """The command of a task whose parameters are already rendered."""
    config = task.config
    folder = task.working_directory
    if isinstance(config, Subprocess):
        argv: tuple[str, ...] = (config.cmd, *config.args)
    elif isinstance(config, UvPython):
        argv = uv_argv(config)
        folder = config.working_directory or folder
    else:
        argv = ray_argv(config, task)
        folder = None  # the task's folder is on the cluster
    return Command(argv, task.env, os.path.expanduser(folder) if folder else None)


def uv_argv(config: UvPython) -> tuple[str, ...]:
    """`uv run [--with PACKAGE]... SCRIPT`; a uv project declares its packages itself."""
    packages = () if config.is_uv_project else config.packages or ()
    options = [word for package in packages for word in ("--with", package)]
    return (config.uv_path or "uv", "run", *options, config.script_path)
