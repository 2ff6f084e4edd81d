"""Every setting of AgentFlow: one table, read from the environment, a file, or the caller.

The table is the class `Settings`: each field is a setting with its variable, default, range and meaning. The first
source that has a value wins: the caller, the environment, the file, the default. A bad value is a SettingError that
says which variable, what it holds and what it should; a secret is never shown, neither there nor in `repr`.

The settings of the section `mongodb` select the MongoDB store; a store that names something else is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from afl.kernel.codec import MAX_PAYLOAD_BYTES
from afl.kernel.config_file import DEFAULT_CONFIG_FILENAME, parse_file, require_file
from afl.kernel.errors import SettingError
from afl.kernel.mongodb_address import with_database, with_login
from afl.kernel.near_names import near_name
from afl.kernel.redaction import redact
from afl.kernel.setting_kinds import (
    Choice,
    Integer,
    Pairs,
    Secret,
    Text,
    Url,
    mask_url,
    read_variables,
    rows_of,
    setting,
)

_STORES = ("sqlite", "memory", "postgresql", "postgres", "mongodb", "mongodb+srv")
_NOTIFIERS = ("nats", "tls")
_REDIS = ("redis", "rediss", "unix")
_HOUR_MS = 3_600_000
_TELLING_CHARACTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force; the table itself is `SETTINGS`."""

    store: str = setting(
        "AFL_STORE",
        "sqlite:///.afl/afl.db",
        Url(_STORES, is_store=True),
        "Where everything is kept: `sqlite:///relative.db`, `sqlite:////absolute.db` or such a path, `memory://`, "
        "`postgresql://...`; `mongodb://...` for the runtime alone, also selected by the `mongodb` settings.",
    )
    config: str = setting(
        "AFL_CONFIG",
        "",
        Text(),
        f"The configuration file. Empty: `{DEFAULT_CONFIG_FILENAME}` in the working directory, in `~/.afl/` "
        "or in `/etc/afl/`.",
    )
    task_list: str = setting(
        "AFL_TASK_LIST",
        "default",
        Text(required=True),
        "The task list that runs are put on and workers serve.",
    )
    lease_ms: int = setting(
        "AFL_LEASE_MS",
        60_000,
        Integer(100, _HOUR_MS),
        "How long a live worker keeps a task or a turn without renewing it; the evaluator of a run keeps it for ten "
        "seconds at most. A process known to be dead keeps nothing.",
    )
    poll_interval_ms: int = setting(
        "AFL_POLL_INTERVAL_MS",
        2_000,
        Integer(1, _HOUR_MS),
        "How often a worker looks for work when no notifier notifies.",
    )
    heartbeat_interval_ms: int = setting(
        "AFL_HEARTBEAT_INTERVAL_MS",
        10_000,
        Integer(10, _HOUR_MS),
        "How often a server writes that it is alive.",
    )
    lock_timeout_ms: int = setting(
        "AFL_LOCK_TIMEOUT_MS",
        30_000,
        Integer(100, _HOUR_MS),
        "How long a write to an SQLite store waits for another process that has its write lock, before it fails and "
        "names that process.",
    )
    max_payload_bytes: int = setting(
        "AFL_MAX_PAYLOAD_BYTES",
        MAX_PAYLOAD_BYTES,
        Integer(1_024, 1 << 30),
        "The largest value that is accepted, as JSON; a store may allow less.",
    )
    max_deliveries: int = setting(
        "AFL_MAX_DELIVERIES",
        5,
        Integer(1, 1_000),
        "How often work is handed out before it is given up, if each worker dies on it; 1: at most once.",
    )
    commit_steps: int = setting(
        "AFL_COMMIT_STEPS",
        4_096,
        Integer(1, 100_000),
        "The evaluator commits after this many changed steps, at the end of that iteration.",
    )
    commit_ms: int = setting(
        "AFL_COMMIT_MS",
        100,
        Integer(0, 60_000),
        "The evaluator commits after this time, at the end of that iteration.",
    )
    foreach_window: int = setting(
        "AFL_FOREACH_WINDOW", 256, Integer(1, 100_000), "How many elements of a foreach are open at a time."
    )
    doorbell: str = setting(
        "AFL_DOORBELL",
        "auto",
        Choice(("auto", "none"), otherwise=Url(_NOTIFIERS)),
        "How workers are notified of new work at once: `auto` uses the store itself, `none` leaves the poll "
        "interval, a `nats://` address uses that server.",
    )
    retention_days: int = setting(
        "AFL_RETENTION_DAYS",
        0,
        Integer(0, 36_500),
        "Ended runs, and ended tasks of no run, are deleted after this many days; 0 keeps them.",
    )
    model_calls_days: int = setting(
        "AFL_MODEL_CALLS_DAYS",
        30,
        Integer(0, 36_500),
        "Prompts and replies of models are kept for this many days, by a runner; 0: they are not stored at all.",
    )
    log_level: str = setting(
        "AFL_LOG_LEVEL",
        "INFO",
        Choice(("DEBUG", "INFO", "WARNING", "ERROR"), upper=True),
        "The least important messages that are logged.",
    )
    log_format: str = setting(
        "AFL_LOG_FORMAT",
        "text",
        Choice(("text", "json")),
        "How the log is written: `text` for people, `json` for machines, one object per line.",
    )
    telemetry: str = setting(
        "AFL_TELEMETRY",
        "off",
        Choice(("off", "otlp", "console")),
        "Where traces go: `otlp` to a collector at OTEL_EXPORTER_OTLP_ENDPOINT (`http://localhost:4318`), "
        "`console` to standard error.",
    )
    metrics: str = setting(
        "AFL_METRICS",
        "",
        Text(),
        "Where a process exposes its metrics to Prometheus, at `/metrics`: a port on loopback, or an address and "
        "a port. Empty: nowhere; `afl runner` and `afl dashboard` always expose theirs.",
    )
    http_host: str = setting(
        "AFL_HTTP_HOST",
        "127.0.0.1",
        Text(required=True),
        "Where the status server of a runner listens (`/health`, `/status`, `/metrics`): an address of this machine, "
        "`0.0.0.0` for all of them. It requires no token.",
    )
    redis: str = setting(
        "AFL_REDIS",
        "redis://localhost:6379/0",
        Url(_REDIS),
        "The Redis server of messages, registry and circuit breakers.",
    )
    bus: str = setting(
        "AFL_BUS",
        "local",
        Choice(("local",), otherwise=Url(_NOTIFIERS)),
        "How turns are announced: `local` needs no server, a `nats://` address uses JetStream there.",
    )
    project: str = setting(
        "AFL_PROJECT", "main", Text(required=True), "The project that agents of turns belong to."
    )
    blobs: str = setting(
        "AFL_BLOBS",
        "",
        Text(),
        "Where files of turns are that are too large for a card: a folder, or an address that fsspec knows "
        "(`s3://bucket/path`), the same for all workers and servers of a store, and of no other store. Empty: beside "
        "the file of an SQLite store.",
    )
    inline_file_bytes: int = setting(
        "AFL_INLINE_FILE_BYTES",
        65_536,
        Integer(0, 524_288),
        "The largest file of a turn that is in its card, and not in AFL_BLOBS.",
    )
    max_file_bytes: int = setting(
        "AFL_MAX_FILE_BYTES",
        20 * 1024 * 1024,
        Integer(1_024, 1 << 30),
        "The largest file that an agent may be given, or a tool may return.",
    )
    file_days: int = setting(
        "AFL_FILE_DAYS",
        0,
        Integer(0, 36_500),
        "Files in AFL_BLOBS are deleted this many days after they were given; 0 keeps them as long as a card has them.",
    )
    bridges: tuple[tuple[str, Any], ...] = setting(
        "AFL_BRIDGES",
        (),
        Pairs(
            "the name of a facet, and for it `agent:NAME`, `fleet:WORKFLOW`, `message:AGENT` or `human:GROUP`"
        ),
        "Facets whose work is done elsewhere, without a mixin in the workflow.",
    )
    mcp_servers: tuple[tuple[str, Any], ...] = setting(
        "AFL_MCP_SERVERS",
        (),
        Pairs("a name, and for it `command` and `args`, or `url`, and what else `McpServer` has"),
        "MCP servers that agents may name in `mcp`; they win over those that modules declare. `${NAME}` in `env` and "
        "`headers` is a variable of the worker's environment: write secrets so.",
    )
    mcp_private_addresses: str = setting(
        "AFL_MCP_PRIVATE_ADDRESSES",
        "refuse",
        Choice(("refuse", "allow")),
        "Whether MCP servers may be reached over HTTP on this machine and in private networks.",
    )
    messages: str = setting(
        "AFL_MESSAGES",
        "auto",
        Choice(("auto", "memory", "redis")),
        "How steps `with Message` reach those who answer: `memory` within the process, `redis` by the server of "
        "AFL_REDIS, `auto` by that server if AFL_REDIS is set to another than the default.",
    )
    alerts: str = setting(
        "AFL_ALERTS",
        "",
        Secret(),
        "Where workers and the dashboard send a message for each approval that waits for someone and each run that "
        "fails: addresses of Apprise (`mailto://...`, `slack://...`, `json://...`), separated by spaces. One after "
        "`finance=` gets only the approvals of that group, one after `failures=` only the failures. Empty: nowhere.",
    )
    dashboard_url: str = setting(
        "AFL_DASHBOARD_URL",
        "",
        Choice(("",), otherwise=Url(("http", "https"))),
        "Where people reach the dashboard, for the links in alerts. Empty: alerts name commands instead.",
    )
    server: str = setting(
        "AFL_SERVER",
        "",
        Choice(("",), otherwise=Url(("http", "https"))),
        "A server to use instead of a store: the address that `afl dashboard` printed. Empty: the store itself.",
    )
    token: str = setting(
        "AFL_TOKEN",
        "",
        Secret(ascii=True),
        "The token that `afl dashboard` requires of callers without a user of their own, and that `--server` sends.",
    )
    users: tuple[tuple[str, Any], ...] = setting(
        "AFL_USERS",
        (),
        Pairs("a name, and for it the `role` and the `token` that `afl dashboard user add` printed"),
        "Who may use the dashboard and the HTTP API, with which role (viewer, operator, admin or worker).",
    )
    dashboard_hosts: str = setting(
        "AFL_DASHBOARD_HOSTS",
        "",
        Text(),
        "Host names that the dashboard accepts, separated by commas. Empty: loopback names if no token is "
        "required, otherwise any.",
    )
    mongodb_url: str = setting(
        "AFL_MONGODB_URL",
        "mongodb://localhost:27017",
        Url(("mongodb", "mongodb+srv")),
        "The MongoDB server.",
        "mongodb",
    )
    mongodb_username: str = setting(
        "AFL_MONGODB_USERNAME", "", Text(), "The user to log in as; empty: no login.", "mongodb"
    )
    mongodb_password: str = setting("AFL_MONGODB_PASSWORD", "", Secret(), "That user's password.", "mongodb")
    mongodb_auth_source: str = setting(
        "AFL_MONGODB_AUTH_SOURCE",
        "admin",
        Text(required=True),
        "The database that knows the user.",
        "mongodb",
    )
    mongodb_database: str = setting(
        "AFL_MONGODB_DATABASE",
        "afl",
        Text(required=True),
        "The database that holds the collections.",
        "mongodb",
    )

    def shown(self) -> dict[str, str]:
        """Every value by name, fit for eyes: secrets and passwords in addresses are masked."""
        return {row.name: row.kind.show(getattr(self, row.name)) for row in SETTINGS}

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value}' for name, value in self.shown().items())})"


SETTINGS = rows_of(Settings)


def load_settings(
    values: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    path: str | Path | None = None,
) -> Settings:
    """The settings in force. `values` go by name, and a None among them counts as not given."""
    environ = os.environ if environ is None else environ
    given = {name: value for name, value in (values or {}).items() if value is not None}
    if unknown := sorted(given.keys() - {row.name for row in SETTINGS}):
        raise SettingError(
            _no_such(f"unknown setting {unknown[0]!r}", unknown[0], [row.name for row in SETTINGS])
        )
    file = require_file(path or given.get("config") or None, environ)
    merged = read_file(file) if file else {}
    sources = {row.name: f"{file}: {row.key!r}" for row in SETTINGS if row.name in merged}
    from_environ = read_environment(environ)
    merged |= from_environ
    sources |= {row.name: row.variable for row in SETTINGS if row.name in from_environ}
    for row in SETTINGS:
        if row.name in given:
            sources[row.name] = f"setting {row.name!r}"
            merged[row.name] = row.checked(given[row.name], sources[row.name])
    if "store" not in given:
        merged |= _selected_store(merged, sources)
    settings = Settings(**merged)
    _keep_secret(settings)
    return settings


def _keep_secret(settings: Settings) -> None:
    """No error and no log may show them; what is so short that it may be an ordinary word, not in addresses."""
    for row in SETTINGS:
        secret = row.kind.secret(getattr(settings, row.name))
        for spelling in {secret, unquote(secret)}:
            if len(spelling) >= _TELLING_CHARACTERS:
                redact(spelling)


def read_environment(environ: Mapping[str, str], section: str | None = None) -> dict[str, Any]:
    """The values that variables give, by name, all or of one section; an empty variable counts as unset."""
    rows = [row for row in SETTINGS if section is None or row.section == section]
    return read_variables(rows, environ)


def read_file(path: Path) -> dict[str, Any]:
    """The values that a configuration file gives, by name; what it must not contain is an error."""
    document = parse_file(path)
    by_key = {row.key: row for row in SETTINGS}
    found: dict[str, Any] = {}
    for key, value in _flattened(document).items():
        row = by_key.get(_snake_case(key))
        if row is None:
            raise SettingError(_no_such(f"{path}: unknown setting {key!r}", key, list(by_key)))
        found[row.name] = row.checked(value, f"{path}: {key!r}")
    return found


def _selected_store(values: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, str]:
    """The store that the settings of the section `mongodb` name, if any of them has a value."""
    section = [row.name for row in SETTINGS if row.section == "mongodb" and row.name in values]
    if not section:
        return {}
    stated: str = values.get("store", "")
    on_mongodb = stated.lower().startswith("mongodb")
    settings = Settings(**values)
    url = stated if on_mongodb and "mongodb_url" not in values else settings.mongodb_url
    login = (settings.mongodb_username, settings.mongodb_password, settings.mongodb_auth_source)
    address = with_login(url, *login)
    if "mongodb_database" in values:
        address = with_database(address, settings.mongodb_database)
    if stated and (not on_mongodb or with_login(stated, *login) != address):
        named = ", ".join(sources[name] for name in section)
        raise SettingError(
            f"{sources['store']} is {mask_url(stated)!r}, but the MongoDB settings ({named}) select "
            f"{mask_url(address)!r}; remove one or the other"
        )
    return {"store": address}


def _flattened(document: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    whole = {row.key for row in SETTINGS if isinstance(row.kind, Pairs)}
    for key, value in document.items():
        nested = value if isinstance(value, dict) and _snake_case(key) not in whole else None
        flat |= {f"{key}.{name}": inner for name, inner in nested.items()} if nested else {key: value}
    return flat


def _snake_case(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).lower()


def _no_such(problem: str, name: str, known: list[str]) -> str:
    near = near_name(name, known)
    return problem + (f"; did you mean {near!r}?" if near else f"; known are {', '.join(known)}")
