"""The description of the API: OpenAPI 3.1, from the catalog and the types of its functions."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from afl import __version__
from afl.client.http_client import KEY_HEADER
from afl.dashboard.api.requests import LONGEST_KEY, is_required, outer_parameters
from afl.kernel import codec
from afl.operations import serialization
from afl.operations.catalog import API, PUBLIC
from afl.operations.operation import Operation
from afl.operations.problems import Refusal

_REFUSALS = {
    "401": "The caller is not authenticated.",
    "403": "The role does not allow it, or the request came from elsewhere.",
    "404": "There is nothing with that name.",
    "409": "It is not in a state in which that can be done.",
    "413": "The request is too large.",
    "422": "The input is wrong; nothing was stored.",
    "429": "Too many wrong tokens.",
    "503": "The store, or the server of that part, does not answer.",
}


@cache
def description() -> dict[str, Any]:
    """The whole document."""
    kinds = [Refusal, *(kind for each in PUBLIC for kind in _kinds(each))]
    found, components = serialization.schemas(kinds)
    schemas = iter(found[1:])
    paths: dict[str, Any] = {}
    for operation in PUBLIC:
        own = [next(schemas) for _ in _kinds(operation)]
        paths.setdefault(API + operation.path, {})[operation.method.lower()] = _described(
            operation, own, found[0]
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "AgentFlow", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_ABOUT = "What the command line shows and does, over HTTP. Times are milliseconds since the epoch."


async def describe_api(request: Request) -> Response:
    """`GET /api/v1/openapi.json`."""
    return Response(codec.encode(description(), what="the description"), media_type="application/json")


def _kinds(operation: Operation) -> list[Any]:
    """The types of its parameters, in their order, and of its result."""
    return [*(operation.hints[each.name] for each in operation.parameters), operation.hints["return"]]


def _described(
    operation: Operation, schemas: list[dict[str, Any]], refusal: dict[str, Any]
) -> dict[str, Any]:
    by_name = dict(zip([each.name for each in operation.parameters], schemas, strict=False))
    said: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": f"{operation.description}\n\nRole: {operation.role}.",
        "parameters": _parameters(operation, by_name),
        "responses": {
            "200": {"description": operation.summary, "content": _json(schemas[-1])},
            **{code: {"description": about, "content": _json(refusal)} for code, about in _REFUSALS.items()},
        },
    }
    if operation.has_body:
        said["requestBody"] = _body(operation, by_name)
    return said


def _parameters(operation: Operation, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    named = re.findall(r"{(\w+)}", operation.path)
    found = [{"name": name, "in": "path", "required": True, "schema": schemas[name]} for name in named]
    if not operation.has_body:
        found += [
            {
                "name": each.name,
                "in": "query",
                "required": is_required(each),
                "schema": _with_default(each, schemas[each.name]),
            }
            for each in outer_parameters(operation)
        ]
    if operation.key:
        about = "The same key again is the same run: send it with every attempt of one submission."
        schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"}
        found.append({"name": KEY_HEADER, "in": "header", "description": about, "schema": schema})
    return found


def _body(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    outer = outer_parameters(operation)
    schema = {
        "type": "object",
        "properties": {each.name: _with_default(each, schemas[each.name]) for each in outer},
        "required": [each.name for each in outer if is_required(each)],
        "additionalProperties": False,
    }
    return {"required": bool(schema["required"]), "content": _json(schema)}


def _with_default(parameter: inspect.Parameter, schema: dict[str, Any]) -> dict[str, Any]:
    if is_required(parameter):
        return schema
    return {**schema, "default": serialization.plain(parameter.default)}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
