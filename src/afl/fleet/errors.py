"""What can go wrong between the peers of a fleet.

AgentFlowError
├── InputError
│   ├── ProtocolError     a frame that is no request
│   └── RequestRefused    the principal understood the request and says no
├── PrincipalAway         the principal does not answer
├── PrincipalFailed       it answered that it could not do it, or nothing that can be read
└── KeyFileError          keys that are missing, damaged, or needed and not there
"""

from __future__ import annotations

from afl.kernel.errors import AgentFlowError, InputError


class ProtocolError(InputError):
    """A frame that is no request; the text is the one the peer is answered with."""


class RequestRefused(InputError):
    """The principal understood the request and says no; the text is its own."""


class PrincipalAway(AgentFlowError):
    """The principal does not answer."""


class PrincipalFailed(AgentFlowError):
    """The principal could not do what it was asked for, or its answer cannot be read."""


class KeyFileError(AgentFlowError):
    """Keys are missing, damaged, or needed and not there."""
