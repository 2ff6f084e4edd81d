"""The runner service: `python -m afl.runtime.runner`, or `afl runner`.

The service is loaded when it is first asked for: handlers of a registry are beside it, and need no HTTP server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afl.runtime.runner.service import RESUME_TASK_NAME, RunnerConfig, RunnerService

__all__ = ["RESUME_TASK_NAME", "RunnerConfig", "RunnerService"]


if not TYPE_CHECKING:  # a type checker takes the imports above, and reports what is not there

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.service"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
