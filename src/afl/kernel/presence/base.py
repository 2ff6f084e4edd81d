"""Presence as the rest of AgentFlow sees it.

A free lock proves death and cuts a lease short. A held lock proves nothing about progress and never extends
one.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from enum import Enum
from typing import NamedTuple

from afl.kernel.ids import sortable_id


class Life(Enum):
    """What can be said about a process."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class Process(NamedTuple):
    """A process of a machine."""

    host: str
    pid: int

    @classmethod
    def this(cls) -> Process:
        """This one."""
        return cls(os.uname().nodename, os.getpid())


class Presence(ABC):
    """The liveness lock of this process in one store, and those of others."""

    _id: str | None = None

    @property
    @abstractmethod
    def id(self) -> str:
        """This process in this store. Its lock is taken when first asked for; a forked child gets another."""

    @abstractmethod
    def proof(self, owner: str) -> Life:
        """DEAD only when the owner's lock is proven free; UNKNOWN leaves the decision to the lease."""

    @abstractmethod
    def process(self, owner: str) -> Process | None:
        """The process of an owner, where it is known."""

    def describe(self, owner: str) -> str:
        """The owner in words, for an error message: its process and host where they are known."""
        process = self.process(owner)
        if process is None:
            return owner
        return f"process {process.pid} on {process.host}" + (" (this one)" if owner == self._id else "")

    @abstractmethod
    def close(self) -> None:
        """Release the lock: from now on this process counts as gone."""

    @abstractmethod
    def forked(self) -> None:
        """In a forked child: forget the parent's lock without releasing it."""


class LonePresence(Presence):
    """For a store of one process."""

    @property
    def id(self) -> str:
        if self._id is None:
            self._id = sortable_id()
        return self._id

    def proof(self, owner: str) -> Life:
        return Life.ALIVE if owner == self._id else Life.UNKNOWN

    def process(self, owner: str) -> Process | None:
        return Process.this() if owner == self._id else None

    def close(self) -> None:
        self._id = None

    def forked(self) -> None:
        self._id = None
