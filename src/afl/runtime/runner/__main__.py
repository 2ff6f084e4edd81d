"""`python -m afl.runtime.runner`: the runner service with the settings of the environment."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from afl.kernel.errors import AgentFlowError, SettingError
from afl.kernel.leaving import leave
from afl.kernel.log import RedactingFormatter, configure_logging
from afl.kernel.observing import start_tracing
from afl.kernel.private_files import make_private_file
from afl.kernel.settings import load_settings
from afl.runtime.evaluator import Evaluator
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.service import RunnerService
from afl.runtime.store import store_of
from afl.runtime.task_handlers.capture import capturing


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. `afl runner` does the same, and takes handlers too."""
    given = _parser().parse_args(arguments)
    try:
        _serve(given)
    except AgentFlowError as error:
        if os.environ.get("AFL_DEBUG"):
            raise
        print(f"error[{error.code}]: {error}", file=sys.stderr)
        return 2 if isinstance(error, SettingError) else 1
    return 0


def _serve(given: argparse.Namespace) -> None:
    named = {
        "store": given.store,
        "config": given.config,
        "task_list": given.task_list,
        "http_host": given.host,
    }
    settings = load_settings(named)
    if given.log_file is not None:
        make_private_file(given.log_file)
    logging.basicConfig(level=given.log_level or settings.log_level, filename=given.log_file)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(RedactingFormatter(logging.BASIC_FORMAT))
    if settings.log_format == "json" and given.log_file is None:
        configure_logging(given.log_level or settings.log_level, json=True)
    start_tracing(settings.telemetry, given.service_name)
    store = store_of(settings)
    config = RunnerConfig(
        server_group=given.server_group,
        service_name=given.service_name,
        server_name=given.server_name,
        topics=given.topics or [],
        task_list=settings.task_list,
        poll_interval_ms=given.poll_interval or settings.poll_interval_ms,
        heartbeat_interval_ms=given.heartbeat_interval or settings.heartbeat_interval_ms,
        lock_duration_ms=given.lock_duration,
        lock_extend_interval_ms=given.lock_duration // 3,
        max_concurrent=given.max_concurrent,
        http_port=given.port,
        http_host=settings.http_host,
        retention_days=settings.retention_days,
        model_calls_days=settings.model_calls_days,
    )
    try:
        with capturing():
            RunnerService(store, Evaluator(store), config).start()
    finally:
        store.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m afl.runtime.runner", description=__doc__)
    parser.add_argument("--store", help="where runs are kept (AFL_STORE)")
    parser.add_argument("--config", help="a configuration file (AFL_CONFIG)")
    parser.add_argument("--server-group", default="default")
    parser.add_argument("--service-name", default="afl-runner")
    parser.add_argument("--server-name", default="")
    parser.add_argument("--topics", nargs="*", help="serve only these facets")
    parser.add_argument("--task-list", help="the list to serve (AFL_TASK_LIST)")
    parser.add_argument("--max-concurrent", type=int, default=5)
    parser.add_argument("--poll-interval", type=int, help="milliseconds (AFL_POLL_INTERVAL_MS)")
    parser.add_argument("--heartbeat-interval", type=int, help="milliseconds (AFL_HEARTBEAT_INTERVAL_MS)")
    parser.add_argument("--lock-duration", type=int, default=60_000, help="milliseconds")
    parser.add_argument("--port", type=int, default=8080, help="of the status server, or the next free one")
    parser.add_argument("--host", help="where the status server listens (AFL_HTTP_HOST)")
    parser.add_argument("--log-level", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    parser.add_argument("--log-file", help="instead of standard error")
    return parser


if __name__ == "__main__":
    code = main()
    leave(code)
    raise SystemExit(code)
