"""Every error AgentFlow raises on purpose descends from one base.

AgentFlowError
├── InputError            what the caller gave is wrong; nothing was stored
│   ├── NotFoundError     there is nothing of that name
│   ├── StateError        what it names is not in a state in which that can be done
│   ├── SettingError      a setting or environment variable has a bad value
│   ├── PayloadError      a value is too large, or is not plain JSON data
│   ├── GraphError        dependencies that form a cycle, or name a node that does not exist
│   └── ScheduleError     a cron expression, time zone or schedule that cannot be
├── StoreError            the store cannot be used
│   ├── StoreUnavailable  it does not answer
│   ├── StoreReadOnly     it can be read here, and not written
│   ├── StoreCorrupt      it is not a store, or is damaged
│   ├── StoreVersionError its schema is newer than this code
│   └── StoreConflict     a constraint of the schema refused a row
├── CorruptRow            a stored row is missing, or cannot be read
├── FencedError           the caller no longer holds what it wrote to; the write had no effect
├── HeldError             another live process holds it
├── CapabilityError       this kind of store does not offer it; nothing was stored
├── AccessError           the caller has no right to this
│   ├── Unauthenticated   it is not known who asks
│   ├── Forbidden         it is known, and the role does not allow it; or the request came from elsewhere
│   └── Throttled         too many wrong tokens
├── MissingExtraError     an optional dependency is not installed
└── ServerError           a local server did not start or stop
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class SourcePlace(NamedTuple):
    """A place in a file of the user: a workflow, a module of handlers, inputs."""

    file: str
    line: int
    column: int | None = None


class AgentFlowError(Exception):
    """Base of all deliberate errors; its text is meant to be shown to a person.

    `code` names the kind of error for programs, in the HTTP API and in logs: the class's name in words, unless
    the class says otherwise. `hint` says what to do about it, and `status` is that of HTTP; both are a base's where a
    class has none of its own. `place` is where in a file of the user the cause is, if it is in one.
    """

    code: str = "agent-flow-error"
    hint: str = "Read the text: it says what was wrong and where."
    status: int = 500
    place: SourcePlace | None = None

    def __init_subclass__(cls, *, code: str = "", hint: str = "", status: int = 0, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls.code = code or re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()
        if hint:
            cls.hint = hint
        if status:
            cls.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled: as it is, and not made again by `__init__`, which may take more than the text."""
        return _remade, (type(self), self.args), vars(self)


def _remade(kind: type[AgentFlowError], args: tuple[Any, ...]) -> AgentFlowError:
    return kind.__new__(kind, *args)


class InputError(AgentFlowError, ValueError, hint="Correct the input; nothing was stored.", status=422):
    """The input is wrong; nothing was stored."""


class NotFoundError(InputError, hint="Look up the name in the list that the text mentions.", status=404):
    """There is nothing with that name or id."""


class StateError(InputError, hint="Look at its state, which the text says; nothing was stored.", status=409):
    """It is not in a state in which that can be done."""


class SettingError(
    InputError,
    hint="Correct the setting or variable that the text names; `docs/settings.md` lists all of them.",
):
    """A setting has a bad value; the text names the setting and what it expects."""


class PayloadError(
    InputError,
    hint="Keep large things elsewhere and pass their address, or raise AFL_MAX_PAYLOAD_BYTES.",
):
    """A value is too large for the store, or is not plain JSON data."""


class GraphError(
    InputError,
    hint="Break the cycle, or correct the name, in the dependencies that the text shows.",
):
    """Dependencies form a cycle or name an unknown node; the text shows the path or the near name."""


class ScheduleError(
    InputError,
    hint="Write five cron fields or a word such as @daily, and a zone such as Europe/Berlin.",
):
    """A cron expression, time zone or schedule is wrong; the text names the field and what it expects."""


class StoreError(AgentFlowError, hint="Look at the store: its address (AFL_STORE), its server, its disk."):
    """The store cannot be used."""


class StoreUnavailable(
    StoreError,
    hint="Start the server, correct the address, or free space on a full disk; work continues when it answers again.",
    status=503,
):
    """The store does not answer."""


class StoreReadOnly(
    StoreError,
    hint="Give this user the right to write the file and its directory, or do it where they can be written.",
):
    """The store can be read here and not written: its file system, directory or file allows no more."""


class StoreCorrupt(
    StoreError,
    hint="Name another store, or restore this one from a backup; it was left as it is.",
):
    """The file or database is damaged, or is not an AgentFlow store."""


class CorruptRow(
    AgentFlowError,
    hint="Restore the row from a backup and resume the run, or cancel the run; all other work continues.",
):
    """A row of the store is missing or cannot be read. The store itself works: trying again does not help."""


class StoreVersionError(
    StoreError,
    hint="Update AgentFlow on this machine to the version that wrote the store.",
):
    """The store was written by a newer AgentFlow."""


class StoreConflict(
    StoreError,
    hint="Ask for it under another name or id; that row is there already, or refers to one that is not.",
    status=409,
):
    """A unique, check or foreign key constraint refused a row."""


class FencedError(
    AgentFlowError,
    hint="Nothing to repair: another worker took the work over, and its result counts.",
    status=409,
):
    """The caller's hold ended; its write had no effect."""


class HeldError(
    AgentFlowError, hint="Wait until that process is done with it, or end it; then try again.", status=409
):
    """Another live process holds it."""


class CapabilityError(
    AgentFlowError, hint="Use a store that supports it: SQLite and PostgreSQL support everything.", status=409
):
    """This kind of store does not support the operation; nothing was stored."""


class AccessError(
    AgentFlowError, hint="Ask the operator of the server for a token or another role.", status=403
):
    """The caller has no right to this; nothing was done."""


class Unauthenticated(
    AccessError, hint="Give a token: --server with AFL_TOKEN, `Authorization: Bearer`, or log in.", status=401
):
    """The caller is not authenticated, or the token is wrong."""


class Forbidden(AccessError):
    """The role does not allow it, or requests from this origin are not accepted."""


class Throttled(AccessError, hint="Wait a minute, then try the right token.", status=429):
    """Too many wrong tokens from one address."""


class MissingExtraError(
    AgentFlowError, ImportError, hint="Install the extra that the text names.", status=503
):
    """An optional dependency is not installed; the text says which extra to install."""


def pip_install(extra: str) -> str:
    """The command that installs an extra, for the texts above; it is quoted, since zsh takes brackets for a pattern."""
    return f'pip install "agentflow-afl[{extra}]"'


class ServerError(
    AgentFlowError,
    hint="Read the end of its log in the text; `afl down`, then `afl up` starts afresh.",
):
    """A local server did not start or stop; the text ends with the tail of its log."""
