"""The API for people: a page with every request, made from the catalog, each with an example for a shell."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from afl import __version__
from afl.client.http_client import KEY_HEADER
from afl.dashboard.api.requests import DOCS, is_required, outer_parameters
from afl.dashboard.rendering import page
from afl.kernel.errors import MissingExtraError
from afl.operations import serialization
from afl.operations.catalog import API, PUBLIC
from afl.operations.operation import Operation

OPENAPI = f"{API}/openapi.json"
_SAMPLES = {"cron": "@daily", "older_than_ms": 7 * 86_400_000}
_Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter: in path, query, body or header; `kind` is its type and `about` its meaning, in words."""

    name: str
    place: str
    kind: str
    about: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. `missing` says why nothing is known of its parameters: its part is not installed."""

    operation: Operation
    text: str
    arguments: tuple[Argument, ...]
    example: str
    missing: str = ""


async def about_api(request: Request) -> Response:
    """`GET /api/v1`: what is here, and where it is described."""
    links = {"openapi": OPENAPI, "docs": DOCS}
    return JSONResponse({"name": "AgentFlow", "version": __version__, "links": links})


async def show_manual(request: Request) -> Response:
    """`GET /api/v1/docs`."""
    demands_token = bool(request.app.state.sessions.demands_token)
    groups = await run_in_threadpool(manual, demands_token)  # imports all parts the first time
    return await page(
        request,
        "api.html",
        active="api",
        address=str(request.base_url).rstrip("/"),
        api=API,
        openapi=OPENAPI,
        groups=groups,
        demands_token=demands_token,
    )


@cache
def manual(demands_token: bool) -> dict[str, list[Entry]]:
    """Every request, by its tag."""
    found: dict[str, list[Entry]] = {}
    for operation in PUBLIC:
        found.setdefault(operation.tag, []).append(_entry(operation, demands_token))
    return found


def _entry(operation: Operation, demands_token: bool) -> Entry:
    try:
        schemas = _schemas(operation)
    except MissingExtraError as error:
        return Entry(operation, operation.summary, (), "", str(error))
    arguments = tuple(_argument(operation, each, schemas[each.name]) for each in operation.parameters)
    return Entry(operation, operation.description, arguments, _example(operation, schemas, demands_token))


def _schemas(operation: Operation) -> dict[str, _Schema]:
    """The schema of each parameter; where it is a kind with a name, what that stands for."""
    names = [each.name for each in operation.parameters]
    found, components = serialization.schemas([operation.hints[name] for name in names], reference="{name}")
    whole = [components[each["$ref"]] if "$ref" in each else each for each in found]
    return dict(zip(names, whole, strict=True))


def _argument(operation: Operation, parameter: inspect.Parameter, schema: _Schema) -> Argument:
    name = parameter.name
    about = [str(schema.get("description", "")).partition("\n")[0]]
    if is_required(parameter):
        about.append("Required.")
    elif parameter.default not in (None, "", (), False):
        about.append(f"Default {json.dumps(serialization.plain(parameter.default))}.")
    if name == operation.key:
        return Argument(KEY_HEADER, "header", "string", "The same key again is the same run.")
    if f"{{{name}}}" in operation.path:
        return Argument(name, "path", kind_of(schema), about[0])
    place = "body" if operation.has_body else "query"
    return Argument(name, place, kind_of(schema), " ".join(filter(None, about)))


def kind_of(schema: _Schema) -> str:
    """A type in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition(".")[2]
    if "enum" in schema:
        return " or ".join(json.dumps(each) for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind_of(each) for each in schema["anyOf"]))
    kind = str(schema.get("type", "anything"))
    if kind == "array" and schema.get("items"):
        return f"list of {kind_of(schema['items'])}"
    return {"array": "list", "null": "nothing"}.get(kind, kind)


def _example(operation: Operation, schemas: dict[str, _Schema], demands_token: bool) -> str:
    """A command with all that is required; names in capitals are to be replaced."""
    needed = {
        each.name: _sample(each.name, schemas[each.name])
        for each in outer_parameters(operation)
        if is_required(each)
    }
    path = re.sub(r"{(\w+)}", lambda found: str(_sample(found[1], schemas[found[1]])), operation.path)
    words = ["curl"]
    if demands_token:
        words.append('-H "Authorization: Bearer $AFL_TOKEN"')
    if operation.method != "GET" and not needed:
        words.append(f"-X {operation.method}")
    if operation.has_body and needed:
        words.append(f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(needed))}")
        needed = {}
    query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in needed.items())
    words.append(f'"$AFL_SERVER{API}{path}{"?" if query else ""}{query}"')
    return " ".join(words)


def _sample(name: str, schema: _Schema) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "array":
        return [] if "$ref" in schema["items"] else [name.upper()]
    number = 1 if schema.get("type") == "integer" else None
    return _SAMPLES.get(name, number or name.upper())
