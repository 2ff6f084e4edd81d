"""Which MCP servers there are: what a module declares, and what the setting `mcp_servers` has.

McpServer(command=["uvx", "mcp-server-git"], allow=["git_log", "git_diff*"])
McpServer(url="https://mcp.example.com/mcp", headers={"Authorization": "Bearer ${TOKEN}"}, prefix="shop_")
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name
from afl.kernel.redaction import redact
from afl.kernel.settings import Settings, load_settings

APPROVALS = ("writes", "always", "never")
_TELLING_CHARACTERS = 6  # what is shorter may be an ordinary word
# Programs that start another one; those that are told to by a word of their own; and options that take no value.
_LAUNCHER = re.compile(r"npx|uvx|bunx|node|python[0-9.]*")
_LAUNCHER_BY_WORD = re.compile(r"pipx|uv|bun|deno|pnpm|yarn|docker|podman")
_WORDS = frozenset({"run", "tool", "exec", "dlx", "x"})
_OPTIONS = frozenset({"-m", "-y", "--yes", "-q", "-u", "-i", "--rm", "--init"})
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """A server that is started as a process (`command`), or that is reached over streamable HTTP (`url`).

    `name`: if it is not given, the host of the `url`, or what the `command` starts: `mcp-server-git` for `uvx
    mcp-server-git --repository /src`, the program itself unless it is npx, uvx, python, docker or the like.

    `${NAME}` in the values of `env` and `headers` is a variable of the worker's environment; neither is stored. A
    process has only those variables of the worker that it needs to start (HOME, PATH ...), and `env`.

    `allow`: the names of the tools to offer, or patterns (`get_*`); None: all. `prefix` is put before their names.
    `timeout`: seconds for one call; `connect_timeout`: for the start of a session. `approve`: which calls a person must
    allow: those of tools that the server does not declare read-only ("writes"), "always", or "never"; `approve_group`
    is who is asked.
    `max_result` and `max_description` are characters; longer ones are cut, and the model is told.
    """

    command: Sequence[str] = ()
    url: str = ""
    name: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    allow: Sequence[str] | None = None
    prefix: str = ""
    timeout: float = 60.0
    connect_timeout: float = 30.0
    approve: str = "writes"
    approve_group: str = ""
    max_result: int = 100_000
    max_description: int = 2_000

    def __post_init__(self) -> None:
        if isinstance(self.command, str) or isinstance(self.allow, str):
            raise InputError("`command` and `allow` of an MCP server are lists of texts")
        object.__setattr__(self, "command", tuple(self.command))
        object.__setattr__(self, "allow", None if self.allow is None else tuple(self.allow))
        self._check()
        object.__setattr__(self, "name", self.name or self._default_name())

    def _check(self) -> None:
        if bool(self.command) == bool(self.url):
            raise InputError("an MCP server has a `command`, or a `url`; exactly one of them")
        if self.url and (
            urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname
        ):
            raise InputError("the url of an MCP server begins with http:// or https://, and names a host")
        if self.approve not in APPROVALS:
            raise InputError(f"approve is {self.approve!r}; expected {', '.join(APPROVALS)}")
        for name in ("timeout", "connect_timeout", "max_result", "max_description"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} of an MCP server is {getattr(self, name)!r}; expected more than 0")

    @property
    def too_late(self) -> str:
        """What is told of a server that is not there in time."""
        return f"it did not answer in {self.connect_timeout:g} s"

    def offers(self, tool: str) -> bool:
        """Whether the tool that the server calls so may be offered."""
        return self.allow is None or any(fnmatchcase(tool, pattern) for pattern in self.allow)

    def expanded(self, values: Mapping[str, str]) -> dict[str, str]:
        """`env` or `headers` with the variables of this process; InputError names one that is not set."""
        return {name: _VARIABLE.sub(self._variable, value) for name, value in values.items()}

    def _variable(self, found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise InputError(f"MCP server {self.name}: the variable {found[1]} is not set")
        value = os.environ[found[1]]
        if len(value) >= _TELLING_CHARACTERS:
            redact(value)  # no error and no log shows it
        return value

    def _default_name(self) -> str:
        return urlsplit(self.url).hostname or _command_name(self.command)


def _command_name(command: Sequence[str]) -> str:
    """What a command starts. Other arguments may be secret, so none of them is a name."""
    program = PurePath(command[0]).name
    words = _WORDS if _LAUNCHER_BY_WORD.fullmatch(program) else frozenset[str]()
    if not words and not _LAUNCHER.fullmatch(program):
        return program
    started = next((word for word in command[1:] if word not in _OPTIONS | words), "")
    if started.startswith("-"):  # an option that is not known here, whose value may come next
        return program
    return PurePath(started.partition("?")[0]).name or program


def server_of(name: str, data: Any) -> McpServer:
    """A server as a configuration has it: `command` (with `args`) or `url`, and the other fields by name."""
    if not isinstance(data, Mapping):
        raise InputError(f"mcp_servers: {name} is {type(data).__name__}; expected an object")
    given = dict(data)
    command, args = given.pop("command", ()), given.pop("args", ())
    known = {each.name for each in fields(McpServer)}
    if unknown := sorted(given.keys() - known):
        near = near_name(unknown[0], sorted(known))
        raise InputError(f"mcp_servers: {name} has no field {unknown[0]!r}" + (f"; {near}?" if near else ""))
    whole = [command, *args] if isinstance(command, str) and command else [*command, *args]
    return McpServer(**{**given, "command": tuple(whole), "name": name})


class McpServers:
    """The servers that a process knows, by name. What an admin configured wins over what a module declares."""

    def __init__(self, servers: Iterable[McpServer] = ()) -> None:
        self.settings: Settings | None = None  # None: those of the environment
        self._declared: dict[str, McpServer] = {}
        for each in servers:
            self.add(each)

    def add(self, server: McpServer | str) -> str:
        """One more, and its name; InputError when another one has it. A text names one that is configured."""
        if isinstance(server, str):
            return server
        if self._declared.setdefault(server.name, server) != server:
            raise InputError(f"two MCP servers have the name {server.name!r}; give one another: name=...")
        return server.name

    def find(self, name: str) -> McpServer:
        """The server of that name; InputError if there is none."""
        configured = dict(self._settings.mcp_servers)
        if name in configured:
            return server_of(name, configured[name])
        if name in self._declared:
            return self._declared[name]
        known = ", ".join(sorted({*configured, *self._declared})) or "none"
        raise InputError(f"there is no MCP server {name!r} here; known are: {known}")

    @property
    def allows_private(self) -> bool:
        """Whether servers may be on this machine or in its network."""
        return self._settings.mcp_private_addresses == "allow"

    @property
    def _settings(self) -> Settings:
        if self.settings is None:
            self.settings = load_settings()
        return self.settings
