"""The command of a `!Ray` task: a driver beside the agent that has the work done on the cluster."""

from __future__ import annotations

import importlib.util
import os
import sys

import msgspec

from afl.fleet.workflow import Ray, Task
from afl.kernel.errors import MissingExtraError, pip_install

_DRIVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ray_driver.py")


def check_ray() -> None:
    """MissingExtraError, with what to install, where there is no Ray."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError(f"!Ray tasks need Ray: {pip_install('ray')}")


def ray_argv(config: Ray, task: Task) -> tuple[str, ...]:
    """Run the driver by its path: what it sends to the cluster must not need AgentFlow there."""
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
