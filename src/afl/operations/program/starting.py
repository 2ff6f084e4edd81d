"""What a person fills in to start a workflow of a source they bring."""

from __future__ import annotations

from dataclasses import dataclass, field

from afl.language.diagnostics import Diagnostic
from afl.operations.parameters import Source
from afl.operations.people.forms import Form, start_form
from afl.operations.program.source_text import compile_source, program_of
from afl.runtime.persistence import PersistenceAPI


@dataclass(frozen=True)
class SourceForm:
    """What the compiler found, the workflows of the source, and the form of the one chosen (or the only one)."""

    findings: list[Diagnostic]
    workflows: list[str] = field(default_factory=list)
    workflow: str = ""
    form: Form | None = None


def source_form(store: PersistenceAPI, source: Source, *, workflow: str = "") -> SourceForm:
    """The form that starts a workflow of a source; nothing is stored."""
    found = compile_source(store, source)
    names = [each.name for each in found.workflows]
    chosen = workflow if workflow in names else names[0] if len(names) == 1 else ""
    if not found.valid or not chosen:
        return SourceForm(found.findings, names)
    return SourceForm(found.findings, names, chosen, start_form(program_of(source, chosen)))
