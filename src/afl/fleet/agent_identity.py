"""Who an agent is: a name that people know it by, and one that no other process ever had."""

from __future__ import annotations

import getpass
import re
import secrets
import socket

from afl.fleet.spool_folder import StreamName
from afl.kernel.bounds import check_name
from afl.kernel.ids import sortable_id


def new_identity(suffix: str | None = None) -> StreamName:
    """`{user}@{device}/AG{suffix}`, and an incarnation of its own.

    Without a suffix the agent gets a random one: agents on one machine must never look like one.
    """
    tail = f"-{secrets.token_hex(3)}" if suffix is None else suffix
    name = f"{_user()}@{_printable(socket.gethostname())}/AG{_printable(tail)}"
    return StreamName(check_name(name, "the agent's id"), sortable_id())


def _user() -> str:
    try:
        return _printable(getpass.getuser())
    except (KeyError, OSError):  # a number without a name, as in many containers
        return "unknown"


def _printable(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", "_", text)
