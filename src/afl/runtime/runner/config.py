"""How a runner works."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field


@dataclass
class RunnerConfig:
    """`server_name` is the host's unless given; with `topics` only tasks of these names are served.

    `capture_logging` stores what handlers say by `logging` in the logs of their runs, while the service runs.
    `http_host` is where the status server listens; it asks nobody who they are.
    """

    server_group: str = "default"
    service_name: str = "afl-runner"
    server_name: str = ""
    topics: list[str] = field(default_factory=list)
    task_list: str = "default"
    poll_interval_ms: int = 2000
    heartbeat_interval_ms: int = 10000
    lock_duration_ms: int = 60000
    lock_extend_interval_ms: int = 20000
    max_concurrent: int = 5
    shutdown_timeout_ms: int = 30000
    http_port: int = 8080
    http_max_port_attempts: int = 20
    http: bool = True
    http_host: str = "127.0.0.1"
    retention_days: int = 0
    model_calls_days: int = 30
    capture_logging: bool = False

    def __post_init__(self) -> None:
        self.server_name = self.server_name or socket.gethostname()
