"""The settings of principal, agents and clients: the variables of the reference, from the environment or `.env`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from afl.kernel.errors import SettingError
from afl.kernel.setting_kinds import Choice, Integer, Text, mask_url, read_variables, rows_of, setting

SPOOL_FILE = "spool.db"
_VARIABLE = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*)")
_QUOTED = re.compile(r"""(["'])(?P<text>.*?)\1\s*(?:#.*)?""")


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a file; none when there is no file."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _VARIABLE.fullmatch(line)
        if match:
            found[match["name"]] = _unquoted(match["value"])
    return found


def missing_dotenv(path: Path = Path(".env")) -> str:
    """A clause that the file is missing, to end a sentence with; empty when it exists."""
    return "" if path.exists() else f"there is no {path.name} in {path.absolute().parent}"


def _unquoted(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return quoted["text"]
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()


_HOUR_MS = 3_600_000
_PORT = Integer(0, 65_535)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """The values in force; the table itself is `FLEET_SETTINGS`."""

    log_level: str = setting(
        "CDKTR_LOG_LEVEL",
        "INFO",
        Choice(("TRACE", "DEBUG", "INFO", "WARN", "ERROR"), upper=True),
        "The least important messages that principal and agents log.",
    )
    agent_max_concurrency: int = setting(
        "CDKTR_AGENT_MAX_CONCURRENCY",
        5,
        Integer(1, 10_000),
        "How many workflows an agent runs at a time, and how many tasks of each.",
    )
    retry_attempts: int = setting(
        "CDKTR_RETRY_ATTEMPTS",
        20,
        Integer(1, 1_000_000),
        "How often a request that gets no answer is sent before the principal counts as lost.",
    )
    default_zmq_timeout_ms: int = setting(
        "CDKTR_DEFAULT_ZMQ_TIMEOUT_MS",
        3_000,
        Integer(1, _HOUR_MS),
        "How long an answer is waited for, and the pause before the next attempt.",
    )
    default_zmq_rep_frefresh_interval_ms: int = setting(
        "CDKTR_DEFAULT_ZMQ_REP_FREFRESH_INTERVAL_MS",
        3_000,
        Integer(0, _HOUR_MS),
        "Accepted and without effect: this principal has no connections to purge.",
    )
    principal_host: str = setting(
        "CDKTR_PRINCIPAL_HOST",
        "127.0.0.1",
        Text(required=True),
        "Where the principal listens and its peers connect. An address that is not this machine's own needs keys.",
    )
    principal_port: int = setting(
        "CDKTR_PRINCIPAL_PORT", 5561, _PORT, "The port for requests; 0 takes a free one."
    )
    logs_listening_port: int = setting(
        "CDKTR_LOGS_LISTENING_PORT",
        5562,
        _PORT,
        "The port where the principal takes log lines of agents of the reference.",
    )
    logs_publishing_port: int = setting(
        "CDKTR_LOGS_PUBLISHING_PORT", 5563, _PORT, "The port where the principal publishes log lines."
    )
    workflow_dir: str = setting(
        "CDKTR_WORKFLOW_DIR", "workflows", Text(required=True), "The folder of workflow files."
    )
    workflow_dir_refresh_frequency_s: int = setting(
        "CDKTR_WORKFLOW_DIR_REFRESH_FREQUENCY_S",
        60,
        Integer(1, 86_400),
        "How often that folder is checked for changes, in seconds.",
    )
    scheduler_start_poll_frequency_ms: int = setting(
        "CDKTR_SCHEDULER_START_POLL_FREQUENCY_MS",
        500,
        Integer(1, _HOUR_MS),
        "How soon the scheduler looks again after its store did not answer; else it wakes when a run is due.",
    )
    q_persistence_interval_ms: int = setting(
        "CDKTR_Q_PERSISTENCE_INTERVAL_MS",
        1_000,
        Integer(0, _HOUR_MS),
        "Accepted and without effect: the queue is on the disk before a request is answered.",
    )
    app_data_directory: str = setting(
        "CDKTR_APP_DATA_DIRECTORY",
        "$HOME/.cdktr",
        Text(required=True),
        "The folder for what principal and agents keep: spools and keys.",
    )
    db_path: str = setting(
        "CDKTR_DB_PATH",
        "$HOME/.cdktr/app.db",
        Text(required=True),
        "The principal's store: a path of an SQLite file, or `postgresql://...`.",
    )
    tui_status_refresh_interval_ms: int = setting(
        "CDKTR_TUI_STATUS_REFRESH_INTERVAL_MS",
        1_000,
        Integer(10, _HOUR_MS),
        "How often the terminal interface is refreshed.",
    )
    agent_heartbeat_timeout_ms: int = setting(
        "CDKTR_AGENT_HEARTBEAT_TIMEOUT_MS",
        30_000,
        Integer(100, _HOUR_MS),
        "An agent that is silent for longer counts as lost, and its runs as CRASHED.",
    )
    retention_days: int = setting(
        "CDKTR_RETENTION_DAYS",
        0,
        Integer(0, 36_500),
        "How many days the principal keeps ended runs with their tasks, statuses and log lines; 0: forever.",
    )
    keys_directory: str = setting(
        "CDKTR_KEYS_DIRECTORY",
        "",
        Text(),
        "The folder of the CURVE keys; empty: `keys` in the data folder. Keys that are there are used.",
    )

    @property
    def data_folder(self) -> Path:
        return Path(expanded(self.app_data_directory))

    @property
    def keys_folder(self) -> Path:
        return Path(expanded(self.keys_directory)) if self.keys_directory else self.data_folder / "keys"

    @property
    def database_url(self) -> str:
        """The store's URL; a plain path is an SQLite file."""
        path = expanded(self.db_path)
        return path if "://" in path else f"sqlite:///{Path(path).absolute()}"

    @property
    def spool_folder(self) -> Path:
        """Where agents keep what the principal has not acknowledged."""
        return self.data_folder / "agent"

    @property
    def files(self) -> list[Path]:
        """The SQLite files of principal and agents that exist on this machine."""
        try:
            url, spool = self.database_url, self.spool_folder / SPOOL_FILE
        except SettingError:  # no home folder: there is nothing
            return []
        store = [Path(url.removeprefix("sqlite:///"))] if url.startswith("sqlite:") else []
        return [path for path in [*store, spool] if path.exists()]

    @property
    def logging_level(self) -> str:
        """The level by its name in Python's logging, which has no TRACE."""
        return {"TRACE": "DEBUG", "WARN": "WARNING"}.get(self.log_level, self.log_level)

    def address(self, port: int | str) -> str:
        """A ZeroMQ address; one of IPv6 is put in brackets."""
        host = self.principal_host
        return f"tcp://[{host}]:{port}" if self.is_ipv6 and host[0] != "[" else f"tcp://{host}:{port}"

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.principal_host

    def __repr__(self) -> str:
        shown = (f"{row.name}={mask_url(str(getattr(self, row.name)))!r}" for row in FLEET_SETTINGS)
        return f"FleetSettings({', '.join(shown)})"


FLEET_SETTINGS = rows_of(FleetSettings)


def load_fleet_settings(
    values: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    dotenv: Path = Path(".env"),
) -> FleetSettings:
    """The settings in effect: the caller's (None: not given), the environment's, `.env`'s, the defaults."""
    rows = {row.name: row for row in FLEET_SETTINGS}
    found = read_variables(FLEET_SETTINGS, read_dotenv(dotenv), f"{dotenv}: ")
    found |= read_variables(FLEET_SETTINGS, os.environ if environ is None else environ)
    for name, value in (values or {}).items():
        if name not in rows:
            raise SettingError(f"unknown setting {name!r}; known are {', '.join(rows)}")
        if value is not None:
            found[name] = rows[name].checked(value, f"setting {name!r}")
    return replace(FleetSettings(), **found)


def expanded(path: str) -> str:
    """Expand `$HOME` and `~`."""
    found = os.path.expanduser(path.replace("${HOME}", "~").replace("$HOME", "~"))
    if found.startswith("~"):
        raise SettingError(
            f"{path!r}: this user has no home folder; set CDKTR_APP_DATA_DIRECTORY, CDKTR_DB_PATH and other "
            "paths of the fleet to folders that exist, or set HOME"
        )
    return found
