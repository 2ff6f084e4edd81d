"""What a task starts: a program with its arguments, variables and folder. No shell is ever between."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from afl.fleet.executors.ray_command import ray_argv
from afl.fleet.workflow import Subprocess, Task, UvPython


@dataclass(frozen=True, slots=True)
class Command:
    """One process to be."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # on top of the agent's own
    folder: str | None = None


def command_of(task: Task) -> Command:
    """The command of a task whose parameters are in place already."""
    config = task.config
    folder = task.working_directory
    if isinstance(config, Subprocess):
        argv: tuple[str, ...] = (config.cmd, *config.args)
    elif isinstance(config, UvPython):
        argv = uv_argv(config)
        folder = config.working_directory or folder
    else:
        argv = ray_argv(config, task)
        folder = None  # that of the task is on the cluster
    return Command(argv, task.env, os.path.expanduser(folder) if folder else None)


def uv_argv(config: UvPython) -> tuple[str, ...]:
    """`uv run [--with PACKAGE]... SCRIPT`; a uv project knows its packages itself."""
    packages = () if config.is_uv_project else config.packages or ()
    options = [word for package in packages for word in ("--with", package)]
    return (config.uv_path or "uv", "run", *options, config.script_path)
