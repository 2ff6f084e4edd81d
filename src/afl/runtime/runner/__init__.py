"""The runner service: `python -m afl.runtime.runner`, or `afl runner`.

The service is loaded when it is first asked for: handlers of a registry are beside it, and need no HTTP server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.kernel.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl.runtime.runner.service import RESUME_TASK_NAME as RESUME_TASK_NAME
    from afl.runtime.runner.service import RunnerConfig as RunnerConfig
    from afl.runtime.runner.service import RunnerService as RunnerService

if not TYPE_CHECKING:  # a type checker takes the imports above, and reports what is not there
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "service": "RESUME_TASK_NAME RunnerConfig RunnerService",
        },
    )
