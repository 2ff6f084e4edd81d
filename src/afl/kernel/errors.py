"""Every error AgentFlow raises on purpose descends from one base.

AgentFlowError
├── InputError            what the caller gave is wrong; nothing was stored
│   ├── SettingError      a setting or environment variable has a bad value
│   ├── PayloadError      a value is too large, or is not plain JSON data
│   ├── GraphError        dependencies that form a cycle, or name a node that does not exist
│   └── ScheduleError     a cron expression, time zone or schedule that cannot be
├── StoreError            the store cannot be used
│   ├── StoreUnavailable  it does not answer
│   ├── StoreCorrupt      it is not a store, or is damaged
│   ├── StoreVersionError its schema is newer than this code
│   └── StoreConflict     a constraint of the schema refused a row
├── FencedError           the caller no longer holds what it wrote to; the write had no effect
├── HeldError             somebody else, still alive, holds it
├── CapabilityError       this kind of store does not offer it; nothing was stored
├── MissingExtraError     an optional dependency is not installed
└── ServerError           a local server did not start or stop
"""

from __future__ import annotations


class AgentFlowError(Exception):
    """Base of all deliberate errors; its text is meant to be shown to a person."""


class InputError(AgentFlowError, ValueError):
    """What the caller gave is wrong; nothing was stored."""


class SettingError(InputError):
    """A setting has a bad value; the text names the setting and what it expects."""


class PayloadError(InputError):
    """A value is too large for the store, or is not plain JSON data."""


class GraphError(InputError):
    """Dependencies form a cycle or name an unknown node; the text shows the path or the near name."""


class ScheduleError(InputError):
    """A cron expression, time zone or schedule is wrong; the text names the field and what it expects."""


class StoreError(AgentFlowError):
    """The store cannot be used."""


class StoreUnavailable(StoreError):
    """The store does not answer."""


class StoreCorrupt(StoreError):
    """The file or database is damaged, or is no AgentFlow store."""


class StoreVersionError(StoreError):
    """The store was written by a newer AgentFlow."""


class StoreConflict(StoreError):
    """A unique, check or foreign key constraint refused a row."""


class FencedError(AgentFlowError):
    """The caller's hold ended; its write had no effect."""


class HeldError(AgentFlowError):
    """Somebody else, still alive, holds it."""


class CapabilityError(AgentFlowError):
    """This kind of store does not offer what was asked for; nothing was stored."""


class MissingExtraError(AgentFlowError, ImportError):
    """An optional dependency is not installed; the text says which extra to install."""


class ServerError(AgentFlowError):
    """A local server did not start or stop; the text ends with the tail of its log."""
