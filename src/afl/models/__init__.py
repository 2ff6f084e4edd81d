"""Language models: requests and replies, tools made from functions, structured answers, token use and its price.

Everything above this floor speaks to a `Model` and does not know whose it is. `afl.models.provider_model` and
`afl.models.claude` need the extra of a provider, and are imported by those who want them.

Every name is loaded when it is first asked for: a store keeps what models cost, and needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afl.models.content import File, FileUrl
    from afl.models.conversation import Answer, Question, ask
    from afl.models.errors import AnswerError, ModelError, ModelRejected, ModelUnavailable
    from afl.models.messages import Block, Message, Opaque, Reply, Request, Text, Tool, ToolResult, ToolUse
    from afl.models.model import Model, complete_async
    from afl.models.opening import as_model
    from afl.models.schema import PythonTool, tool_from
    from afl.models.scripted import ScriptedModel
    from afl.models.settings import ModelSettings
    from afl.models.usage import PRICES, Price, Prices, Usage

__all__ = [
    "PRICES",
    "Answer",
    "AnswerError",
    "Block",
    "File",
    "FileUrl",
    "Message",
    "Model",
    "ModelError",
    "ModelRejected",
    "ModelSettings",
    "ModelUnavailable",
    "Opaque",
    "Price",
    "Prices",
    "PythonTool",
    "Question",
    "Reply",
    "Request",
    "ScriptedModel",
    "Text",
    "Tool",
    "ToolResult",
    "ToolUse",
    "Usage",
    "as_model",
    "ask",
    "complete_async",
    "tool_from",
]

_HOMES = {
    "Answer": "conversation",
    "AnswerError": "errors",
    "Block": "messages",
    "File": "content",
    "FileUrl": "content",
    "Message": "messages",
    "Model": "model",
    "ModelError": "errors",
    "ModelRejected": "errors",
    "ModelSettings": "settings",
    "ModelUnavailable": "errors",
    "Opaque": "messages",
    "PRICES": "usage",
    "Price": "usage",
    "Prices": "usage",
    "PythonTool": "schema",
    "Question": "conversation",
    "Reply": "messages",
    "Request": "messages",
    "ScriptedModel": "scripted",
    "Text": "messages",
    "Tool": "messages",
    "ToolResult": "messages",
    "ToolUse": "messages",
    "Usage": "usage",
    "as_model": "opening",
    "ask": "conversation",
    "complete_async": "model",
    "tool_from": "schema",
}


if not TYPE_CHECKING:  # a type checker takes the imports above, and reports what is not there

    def __getattr__(name: str) -> Any:
        module = _HOMES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
