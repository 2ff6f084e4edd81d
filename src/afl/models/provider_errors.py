"""What Pydantic AI raises, as our errors: may the same request succeed later, or does something have to change?"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from math import ceil
from typing import Any

from pydantic_ai.exceptions import (
    AgentRunError,
    FallbackExceptionGroup,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    UnexpectedModelBehavior,
    UserError,
)

from afl.models.errors import ModelError, ModelRejected, ModelUnavailable, RequestTooLong
from afl.models.usage import Usage

RAISED = (AgentRunError, UserError, FallbackExceptionGroup, TypeError)
_AGAIN = (408, 409, 425, 429)
_TOO_LONG = re.compile(  # as Anthropic, OpenAI, Google and local servers say it
    r"prompt is too long|context_length_exceeded|context length|context window"
    r"|input token count.*exceeds|exceed_context_size|exceeds the available context",
    re.IGNORECASE,
)
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def let_go(error: BaseException | None) -> None:
    """Drop what the frames of an error and its causes hold, on the thread of the loop that they ran on.

    The async generators of a client that failed would else be collected by any thread, beside the loop that ends them.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def wait_before_again(error: BaseException) -> float | None:
    """How many seconds the provider asks to wait; 0 if it does not say, None if the request would fail again."""
    if not isinstance(error, ModelAPIError) or error.in_stream:
        return None
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    if isinstance(error, ModelConnectionError) or (
        status is not None and (status in _AGAIN or status >= 500)
    ):
        return retry_after(error) or 0.0
    return None


def broke_off_in_stream(error: BaseException) -> bool:
    """Whether a stream failed, or ended with nothing in it, after the request was accepted: no client repeats that."""
    if isinstance(error, ModelAPIError):
        return error.in_stream
    return type(error) is UnexpectedModelBehavior


def retry_after(error: ModelAPIError) -> float | None:
    """When the provider wants to be asked again; Google says it in the details of the error, not in a header."""
    if error.retry_after is not None:
        return error.retry_after
    body: Any = error.body
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    details = inner.get("details") if isinstance(inner, Mapping) else None
    for each in details if isinstance(details, list) else ():
        found = _DELAY.fullmatch(str(each.get("retryDelay"))) if isinstance(each, Mapping) else None
        if found:
            return float(found[1])
    return None


def failure(error: BaseException, model: str, used: Usage, key: str = "") -> ModelError:
    """The error to raise; `used` is what the call cost all the same, `key` the variable that a key is read from."""
    if isinstance(error, FallbackExceptionGroup):
        return _all_failed(error, used, key)
    if not isinstance(error, RAISED):
        return ModelRejected(f"{model} cannot read the files it was given: {error or type(error).__name__}")
    if isinstance(error, TypeError):
        if "authentication" not in str(error):
            raise error  # a mistake in the program, not in the world
        return ModelRejected(f"there is no key for {model}; set {key or 'it'}, or give api_key")
    if isinstance(error, ModelAPIError):
        return _refused(error, model or error.model_name, used, key)
    if isinstance(error, UserError):
        return ModelRejected(f"{model} cannot be asked like this: {error}", usage=used)
    return ModelUnavailable(f"the answer of {model} cannot be read: {error}", usage=used)


def _refused(error: ModelAPIError, model: str, used: Usage, key: str) -> ModelError:
    said, status = _said(error), error.status_code if isinstance(error, ModelHTTPError) else None
    if error.in_stream:
        return ModelUnavailable(f"{model} broke off: {said}", retry_after=retry_after(error), usage=used)
    if isinstance(error, ModelAuthenticationError):
        check = f"; check {key}" if key else ""
        return ModelRejected(f"{model} does not accept the key ({status}): {said}{check}")
    if isinstance(error, ModelNotFoundError):
        return ModelRejected(f"there is no model {model!r} ({status}): {said}; give the name of another one")
    if isinstance(error, ModelConnectionError):
        return ModelUnavailable(f"{model} cannot be reached: {_cause(error)}", usage=used)
    if isinstance(error, ModelRequestTimeout):
        return ModelUnavailable(f"{model} did not answer in {error.timeout:g} seconds", usage=used)
    if status is not None and (status in _AGAIN or status >= 500):
        wait = retry_after(error)
        later = f"; try again in {ceil(wait)} seconds" if wait else ""
        return ModelUnavailable(
            f"{model} is not available ({status}): {said}{later}", retry_after=wait, usage=used
        )
    if isinstance(error, ModelRequestRejectedError) or status is not None:
        kind = RequestTooLong if _TOO_LONG.search(f"{error.body} {said}") else ModelRejected
        return kind(f"{model} refused the request ({status}): {said}", usage=used)
    return ModelUnavailable(f"the answer of {model} cannot be read: {said}", usage=used)


def _all_failed(group: FallbackExceptionGroup, used: Usage, key: str) -> ModelError:
    """None of the models could be asked; later one may, if it was not each request that would not do."""
    failures = [failure(each, "", used, key) for each in group.exceptions]
    told = "; ".join(str(each) for each in failures)
    waits = [each.retry_after for each in failures if isinstance(each, ModelUnavailable)]
    if not waits:
        return ModelRejected(told, usage=used)
    known = [wait for wait in waits if wait is not None]
    return ModelUnavailable(told, retry_after=min(known) if known else None, usage=used)


def _said(error: ModelAPIError) -> str:
    """The provider's own words."""
    body: Any = error.body
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    said = inner.get("message") if isinstance(inner, Mapping) else inner
    return str(said) if said else str(error)


def _cause(error: BaseException) -> str:
    """The deepest reason: what the socket said, below the layers of the clients."""
    while (below := error.__cause__ or error.__context__) is not None and str(below):
        error = below
    return str(error)
