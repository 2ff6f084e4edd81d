"""docs/reference-http.md: every request of the HTTP API and the data it speaks of, from its OpenAPI description."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from afl.dashboard.api.description import description
from reference.tables import anchor, table

Schema = dict[str, Any]
_REF = "#/components/schemas/"


def render() -> str:
    """The whole page."""
    page = _Page(description())
    lines = [
        "# HTTP API: reference",
        "",
        "Generated from the API's own description by `make docs`; do not edit this page by hand. A server has the",
        "same as OpenAPI 3.1 at `/api/v1/openapi.json`. [The guide](http-api.md) explains how to use it.",
        "",
        *page.contents(),
        *page.refusals(),
        *page.requests(),
        *page.data(),
    ]
    return "\n".join(lines).rstrip() + "\n"


class _Page:
    def __init__(self, document: dict[str, Any]) -> None:
        self._schemas: dict[str, Schema] = document["components"]["schemas"]
        self._operations = [
            (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]
        self._tags = dict.fromkeys(tag for _, _, operation in self._operations for tag in operation["tags"])
        last = Counter(name.rpartition(".")[2] for name in self._schemas)
        self._names = {
            name: name.rpartition(".")[2]
            if last[name.rpartition(".")[2]] == 1
            else ".".join(name.split(".")[-2:])
            for name in self._schemas
        }

    def contents(self) -> list[str]:
        links = [f"[{tag}](#{anchor(tag)})" for tag in self._tags]
        return [f"Requests: {', '.join(links)}. [Refusals](#refusals). [Data](#data).", ""]

    def refusals(self) -> list[str]:
        """The answers that are no success, the same for all."""
        answers = {
            code: answer for _, _, each in self._operations for code, answer in each["responses"].items()
        }
        rows = [[f"`{code}`", answers[code]["description"]] for code in sorted(answers) if code >= "400"]
        return [
            "## Refusals",
            "",
            f"Every answer that is no success has one shape: {self._kind({'$ref': _REF + 'Refusal'})}.",
            "Its `code` is one of those in [errors](reference-errors.md).",
            "",
            *table(["status", "meaning"], rows),
            "",
        ]

    def requests(self) -> Iterator[str]:
        for tag in self._tags:
            yield from (f"## {tag}", "")
            for method, path, operation in self._operations:
                if tag in operation["tags"]:
                    yield from self._request(method, path, operation)

    def _request(self, method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
        yield from (f"### {method} {path}", "", f"**{operation['summary']}.** {operation['description']}", "")
        rows = [
            [
                f"`{each['name']}`",
                each["in"],
                self._kind(each["schema"]),
                self._about(each["schema"], each.get("required", False)),
            ]
            for each in operation.get("parameters", ())
        ]
        body = (
            operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        )
        fields = self._resolved(body)
        wanted = fields.get("required", ())
        rows += [
            [f"`{name}`", "body", self._kind(schema), self._about(schema, name in wanted)]
            for name, schema in fields.get("properties", {}).items()
        ]
        if rows:
            yield from (*table(["name", "in", "type", "meaning"], rows), "")
        for code, answer in operation["responses"].items():
            if code < "300":
                schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
                yield from (f"Answer `{code}`: {self._kind(schema)}", "")

    def data(self) -> Iterator[str]:
        yield from ("## Data", "")
        for name, schema in self._schemas.items():
            yield from (f"### {self._names[name]}", "")
            if schema.get("description"):
                yield from (schema["description"].partition("\n\n")[0], "")
            wanted = schema.get("required", ())
            rows = [
                [
                    f"`{field}`",
                    self._kind(inner),
                    self._about(inner, False) + ("" if field in wanted else " Optional."),
                ]
                for field, inner in schema.get("properties", {}).items()
            ]
            if rows:
                yield from (*table(["field", "type", "meaning"], rows), "")
            else:
                yield from (
                    f"Type: {self._kind({key: value for key, value in schema.items() if key != 'title'})}",
                    "",
                )

    def _resolved(self, schema: Schema) -> Schema:
        reference = schema.get("$ref")
        return self._schemas[reference.removeprefix(_REF)] if reference else schema

    def _kind(self, schema: Schema) -> str:
        """A type in words, with a link where it is one of the data."""
        if "$ref" in schema:
            name = self._names[schema["$ref"].removeprefix(_REF)]
            return f"[{name}](#{anchor(name)})"
        if "enum" in schema:
            return " or ".join(f"`{value}`" for value in schema["enum"])
        if "const" in schema:
            return f"`{schema['const']}`"
        either = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if either:
            return " or ".join(dict.fromkeys(self._kind(each) for each in either))
        kind = schema.get("type", "anything")
        if kind == "array":
            return f"list of {self._kind(schema['items'])}" if schema.get("items") else "list"
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return f"map of {self._kind(schema['additionalProperties'])}"
        return " or ".join(kind) if isinstance(kind, list) else str(kind)

    @staticmethod
    def _about(schema: Schema, required: bool) -> str:
        parts = [schema.get("description", "")]
        if required:
            parts.append("Required.")
        elif schema.get("default") not in (None, "", [], {}, ()):
            parts.append(f"Default `{schema['default']}`.")
        if "minimum" in schema and "maximum" in schema:
            parts.append(f"From {schema['minimum']} to {schema['maximum']}.")
        return " ".join(part for part in parts if part)
