"""Requests and responses of the API: arguments of an operation, results and errors as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from afl.client.http_client import KEY_HEADER
from afl.kernel import codec
from afl.kernel.bounds import reason
from afl.kernel.errors import InputError
from afl.operations import serialization
from afl.operations.catalog import API, NOTHING
from afl.operations.operation import Operation
from afl.operations.problems import Problem, Refusal, RequestError

DOCS = f"{API}/docs"
CHAT = "/v1/"
_JSON = "application/json"
_WORDS = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}


def is_api(path: str) -> bool:
    """Whether programs ask there, and get JSON; the page for people is none of it."""
    return (path == API or path.startswith((f"{API}/", CHAT))) and path != DOCS


def reads_pages(request: Request) -> bool:
    """Whether an error is told as a page: programs get JSON, whatever they ask for."""
    return not is_api(request.scope["path"]) and "text/html" in request.headers.get("Accept", "")


def success(result: object) -> Response:
    """A result."""
    return Response(serialization.encode(result), media_type=_JSON)


def refusal(problem: Problem, status: int, headers: dict[str, str] | None = None) -> Response:
    """A problem."""
    return Response(serialization.encode(Refusal(problem)), status, headers, _JSON)


_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "60"}}


def headers_of(status: int) -> dict[str, str]:
    """The headers that a refusal with this status has: how to be let in, or when to ask again."""
    return dict(_HEADERS.get(status, {}))


def problem_of_http(error: HTTPException) -> Problem:
    """An error of the router."""
    code = _WORDS.get(error.status_code, f"http-{error.status_code}")
    return Problem(code, str(error.detail), "/api/v1/openapi.json lists what there is.")


LONGEST_KEY = 200


async def read_arguments(operation: Operation, request: Request) -> dict[str, Any]:
    """The arguments by name, each of its kind."""
    given = {name: "" if value == NOTHING else value for name, value in request.path_params.items()}
    found = _converted(operation, given, strict=False)
    if operation.has_body:
        found |= _converted(operation, await _body(request), strict=True)
    else:
        found |= _converted(operation, _query(operation, request), strict=False)
    if operation.key and (key := read_key(request)):
        found[operation.key] = key
    missing = [each.name for each in operation.parameters if is_required(each) and each.name not in found]
    if missing:
        raise RequestError(f"{operation.name} needs {', '.join(missing)}")
    return found


def read_key(request: Request) -> str | None:
    """The key that makes of several attempts one; None if there is none."""
    key = request.headers.get(KEY_HEADER) or None
    if key is not None and (len(key) > LONGEST_KEY or not (key.isascii() and key.isprintable())):
        raise RequestError(f"{KEY_HEADER} takes at most {LONGEST_KEY} printable characters")
    return key


def is_required(parameter: inspect.Parameter) -> bool:
    """Whether it has no default."""
    return parameter.default is inspect.Parameter.empty


@cache
def outer_parameters(operation: Operation) -> tuple[inspect.Parameter, ...]:
    """Those that neither the path nor a header has."""
    return tuple(
        each
        for each in operation.parameters
        if f"{{{each.name}}}" not in operation.path and each.name != operation.key
    )


def is_list(kind: Any) -> bool:
    """Whether a query may have it several times."""
    if get_origin(kind) is Annotated:
        return is_list(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return any(is_list(each) for each in get_args(kind) if each is not NoneType)
    return get_origin(kind) in (list, tuple) or kind in (list, tuple)


def _query(operation: Operation, request: Request) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name in request.query_params:
        several = is_list(operation.hints.get(name))
        values = request.query_params.getlist(name)
        if len(values) > 1 and not several:
            raise RequestError(f"{name} is given {len(values)} times; it takes one value")
        given[name] = values if several else values[-1]
    return given


async def read_body(request: Request) -> bytes:
    """The body, which is JSON if there is one: a page of another site cannot send that kind unasked."""
    data = await request.body()
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if data and kind != _JSON:
        raise RequestError(f"the body is {kind or 'of no kind'}; expected {_JSON}")
    return data


async def _body(request: Request) -> Mapping[str, Any]:
    data = await read_body(request)
    if not data:
        return {}
    try:
        found = codec.read(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RequestError("the body is not a JSON object")
    return found


def _converted(operation: Operation, given: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    known = {each.name for each in operation.parameters} - {operation.key}
    found = {}
    for name, value in given.items():
        if name not in known:
            raise RequestError(
                f"{operation.name} takes no {name!r}; it takes {', '.join(sorted(known)) or 'nothing'}"
            )
        if isinstance(value, str) and "\0" in value:
            raise RequestError(f"{name} holds a character that no text may hold (NUL)")
        try:
            found[name] = serialization.convert(value, operation.hints[name], strict=strict)
        except msgspec.ValidationError as error:
            choices = _choices(operation.kind_of(name)[0])
            raise RequestError(f"{name}: {reason(error)}{choices}") from error
        except InputError as error:
            raise RequestError(f"{name}: {error}") from error
    return found


def _choices(kind: Any) -> str:
    """What a parameter that is one of a few words may be."""
    words = [each.value for each in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []
    return f"; expected one of {', '.join(words)}" if words else ""
