"""What a workflow takes and gives, as its source says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from afl.runtime.program.declaration import Declaration, Field
from afl.runtime.program.program import Program
from afl.runtime.program.values import type_text


@dataclass(frozen=True)
class SignatureField:
    """A parameter or a return of a workflow; one that is not required has a default."""

    name: str
    type: str
    required: bool = True
    about: str = ""


@dataclass(frozen=True)
class WorkflowSignature:
    """A workflow: its full name, its doc comment, its parameters and returns."""

    name: str
    about: str = ""
    parameters: list[SignatureField] = field(default_factory=list)
    returns: list[SignatureField] = field(default_factory=list)


def signatures(program: Program) -> list[WorkflowSignature]:
    """Every workflow of a program."""
    return [signature(program.declarations[name]) for name in program.workflows()]


def signature(workflow: Declaration) -> WorkflowSignature:
    """One of them."""
    doc: Mapping[str, Any] = workflow.ast.get("doc") or {}
    return WorkflowSignature(
        workflow.name,
        str(doc.get("description") or ""),
        _fields(workflow.params, doc.get("params")),
        _fields(workflow.returns or (), doc.get("returns")),
    )


def _fields(fields: Iterable[Field], doc: Iterable[Mapping[str, Any]] | None) -> list[SignatureField]:
    about = {each["name"]: str(each["description"]) for each in doc or ()}
    return [
        SignatureField(each.name, type_text(each.type), each.default is None, about.get(each.name, ""))
        for each in fields
    ]
