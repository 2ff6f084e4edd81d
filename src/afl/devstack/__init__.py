"""Real servers from wheels, without containers: for users (`afl up`) and for the tests.

`up`, `down` and `status` serve the command line: servers that survive the command, in a folder.
`temporary_stack` serves tests: servers that end with the process that asked for them, even when it is killed.
"""

from afl.devstack.process import ProcessMark
from afl.devstack.stack import (
    DEFAULT_FOLDER,
    DEFAULT_SERVICES,
    SERVERS,
    ServerStatus,
    Stack,
    down,
    status,
    temporary_stack,
    up,
)

__all__ = [
    "DEFAULT_FOLDER",
    "DEFAULT_SERVICES",
    "SERVERS",
    "ProcessMark",
    "ServerStatus",
    "Stack",
    "down",
    "status",
    "temporary_stack",
    "up",
]
