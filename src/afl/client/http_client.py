"""The client of a dashboard's HTTP API: requests and results follow the catalog of operations."""

from __future__ import annotations

import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from afl import __version__
from afl.kernel import codec
from afl.kernel.errors import AgentFlowError, InputError, NotFoundError
from afl.kernel.setting_kinds import mask_url
from afl.operations import serialization
from afl.operations.catalog import API, NOTHING, operation_of
from afl.operations.operation import Operation
from afl.operations.problems import Refusal, RequestTooLarge, ServerAway, ServerDiffers, error_of

P = ParamSpec("P")
T = TypeVar("T")
KEY_HEADER = "Idempotency-Key"
VERSION_HEADER = "AFL-Version"
_PATIENCE_SECONDS = 60.0
_TOO_LARGE = 413


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are refused: one would send the token to another address."""

    def redirect_request(self, *args: Any) -> None:
        return None


@dataclass(frozen=True)
class _Answer:
    status: int
    data: bytes
    version: str


class HttpClient:
    """Calls operations on the server at an address, as the owner of the token."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url = url.rstrip("/").removesuffix(API)
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirects)

    def call(self, function: Callable[Concatenate[Any, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result, as the server returned it."""
        operation = operation_of(function)
        if not operation.path:
            raise InputError(f"a server cannot {operation.summary.lower()}; use --store")
        answer = self._ask(_request(self._url, operation, args, kwargs))
        if answer.status != 200:
            raise self._refused(answer)
        try:
            result: T = serialization.decode(answer.data, operation.hints["return"])
        except msgspec.DecodeError as error:
            raise self._differs(answer, str(error)) from error
        return result

    def _ask(self, request: urllib.request.Request) -> _Answer:
        request.add_header("User-Agent", f"afl/{__version__}")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=_PATIENCE_SECONDS) as response:
                return _read(response.status, response)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return _read(refusal.code, refusal)
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise ServerAway(f"no server answers at {mask_url(self._url)}: {why}") from error

    def _refused(self, answer: _Answer) -> AgentFlowError:
        try:
            problem = msgspec.json.decode(answer.data, type=Refusal).error
        except msgspec.DecodeError:
            if answer.status == _TOO_LARGE:
                return RequestTooLarge(
                    f"a proxy in front of {mask_url(self._url)} refused the request as too large"
                )
            what = f"it answered with status {answer.status}"
            return ServerAway(f"{mask_url(self._url)} is not an AgentFlow server: {what}")
        if (
            problem.code in ("not-found", "method-not-allowed", "request-error")
            and answer.version != __version__
        ):
            return self._differs(answer, problem.message)
        return error_of(problem)

    def _differs(self, answer: _Answer, why: str) -> AgentFlowError:
        if not answer.version:
            return ServerAway(f"{mask_url(self._url)} is not an AgentFlow server: {why}")
        return ServerDiffers(f"the server is AgentFlow {answer.version}, this is {__version__}: {why}")


def _read(status: int, response: Any) -> _Answer:
    return _Answer(status, response.read(), response.headers.get(VERSION_HEADER, ""))


def _request(
    url: str, operation: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> urllib.request.Request:
    given = operation.signature.bind(None, *args, **kwargs).arguments
    public = {each.name: each for each in operation.parameters}
    told = {
        name: serialization.plain(value, what=name)
        for name, value in given.items()
        if name in public and value != public[name].default
    }
    path = operation.path
    for name in list(told):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", _in_path(operation, name, str(told.pop(name))))
    path = _without_holes(path)
    headers = {KEY_HEADER: str(told.pop(operation.key))} if told.get(operation.key) else {}
    address = f"{url}{API}{path}"
    if operation.has_body:
        # Without a limit: the server says what is too large.
        plain = codec.plain_data(told, what="the request", limit=sys.maxsize)
        body = codec.encode_rows(plain).encode()
        return urllib.request.Request(
            address, body, {**headers, "Content-Type": "application/json"}, method=operation.method
        )
    query = f"?{urlencode(_texts(told), doseq=True)}" if told else ""
    return urllib.request.Request(address + query, headers=headers, method=operation.method)


def _in_path(operation: Operation, name: str, value: str) -> str:
    if value == NOTHING or ("/" in value and not operation.slashes):  # it would be another address
        raise NotFoundError(f"there is no {name} {value[:80]!r}; over HTTP none can be called so")
    return quote(value or NOTHING, safe="")


def _without_holes(path: str) -> str:
    """What was not given stands there as nothing."""
    parts = (NOTHING if part.startswith("{") else part for part in path.split("/"))
    return "/".join(parts)


def _texts(told: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a query; None is one that is left out."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in told.items()
        if value is not None
    }
