"""What a model is asked for a step: from the facet's prompt block, its doc comment and the step's parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.kernel import codec
from afl.runtime.program.declaration import Declaration

_PLACE = re.compile(r"\{\{|\}\}|\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class FacetPrompt:
    """The prompt of one step; an empty `model` leaves the choice to whoever asks."""

    system: str
    text: str
    model: str = ""


def facet_prompt(
    facet: Declaration, parameters: Mapping[str, Any], *, system: str = "", task: str = ""
) -> FacetPrompt:
    """The prompt. `system` comes before what the facet's own block says; `task` is what all of the run is for."""
    body = facet.ast.get("body")
    block: Mapping[str, Any] = body if isinstance(body, Mapping) and body.get("type") == "PromptBlock" else {}
    own = filled(str(block.get("system") or ""), parameters)
    template = block.get("template")
    asked = _plain(facet, parameters, task) if template is None else filled(str(template), parameters)
    if template is not None and task:
        asked = f"Task: {task}\n\n{asked}"
    general = system or ("" if own else _general(facet))
    return FacetPrompt(
        "\n\n".join(part for part in (general, own) if part), asked, str(block.get("model") or "")
    )


def filled(template: str, parameters: Mapping[str, Any]) -> str:
    """The text with `{name}` replaced by parameters, and `{{` and `}}` by braces."""

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        given = parameters.get(found[1])
        return given if isinstance(given, str) else codec.encode(given, what=f"parameter {found[1]}")

    return _PLACE.sub(value, template)


def _general(facet: Declaration) -> str:
    workflow = facet.program.workflow.name
    of = f" of the workflow {workflow}" if workflow else ""
    return f"You work on the steps{of}. Do what the step asks, and give the result by calling its tool."


def _plain(facet: Declaration, parameters: Mapping[str, Any], task: str) -> str:
    """The prompt of a facet without a prompt block."""
    doc = facet.ast.get("doc") or {}
    lines = [f"Workflow: {facet.program.workflow.name}"]
    if task:
        lines.append(f"Task: {task}")
    lines.append(f"Event facet: {facet.name}")
    if doc.get("description"):
        lines += ["", str(doc["description"]), ""]
    lines.append(f"Parameters: {codec.encode(dict(parameters), what='the parameters')}")
    lines += [
        f"- {each['name']}: {each['description']}" for each in doc.get("params") or [] if each["description"]
    ]
    return "\n".join(lines)
