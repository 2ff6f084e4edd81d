"""Errors of models.

AgentFlowError
└── ModelError            a call came to nothing
    ├── ModelRejected     the request will not do as it is: a key, a name, a limit; trying again does not help
    │   └── RequestTooLong  it is longer than what the model can read
    ├── ModelUnavailable  the model does not answer or is overloaded, after all retries; later it may
    └── AnswerError       the model answered, but not what was asked for
"""

from __future__ import annotations

from afl.kernel.errors import AgentFlowError
from afl.models.usage import Usage


class ModelError(AgentFlowError, hint="Look at the text; `afl retry RUN` calls the model again."):
    """A call to a model failed; `usage` is what it used anyway, as far as is known."""

    def __init__(self, message: str, *, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage()


class ModelRejected(
    ModelError, hint="Correct the key, the name of the model or the limit that the text names."
):
    """The request was rejected; the text says what to change."""


class RequestTooLong(ModelRejected, hint="Give the model less to read, or use one that can read more."):
    """The request is longer than the model can read."""


class ModelUnavailable(ModelError, hint="Try again later, or give the facet a `Retry`."):
    """No answer, after all retries. `retry_after` is how long to wait before the next call, in seconds.

    `broke_off`: it had begun to answer, and some of that was given to `on_text`, so the call was not repeated.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        usage: Usage | None = None,
        broke_off: bool = False,
    ) -> None:
        super().__init__(message, usage=usage)
        self.retry_after = retry_after
        self.broke_off = broke_off


class AnswerError(ModelError, hint="State more clearly in the prompt or the doc comment what you want."):
    """The model did not give a valid answer; the text says what was wrong with the last one."""
