"""The runner service: `python -m afl.runtime.runner`, or `afl runner`."""

from afl.runtime.runner.service import RESUME_TASK_NAME, RunnerConfig, RunnerService

__all__ = ["RESUME_TASK_NAME", "RunnerConfig", "RunnerService"]
