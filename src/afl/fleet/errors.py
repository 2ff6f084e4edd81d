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


class ProtocolError(
    InputError, code="fleet-protocol-error", hint="Send a request as docs/fleet-protocol.md describes it."
):
    """A frame that is no request; the text is the one the peer is answered with."""


class RequestRefused(
    InputError, code="fleet-request-refused", hint="Correct what the text names: an id, a parameter, a state."
):
    """The principal understood the request and says no; the text is its own."""


class PrincipalAway(
    AgentFlowError,
    hint="Start `afl fleet principal`, or correct CDKTR_PRINCIPAL_HOST, its port and the keys.",
    status=503,
):
    """The principal does not answer."""


class PrincipalFailed(AgentFlowError, hint="Look at the principal's log.", status=503):
    """The principal could not do what it was asked for, or its answer cannot be read."""


class KeyFileError(
    AgentFlowError, hint="`afl fleet keys` makes them; docs/fleet.md says which file goes where.", status=503
):
    """Keys are missing, damaged, or needed and not there."""
