"""Language models: requests and replies, tools made from functions, structured answers, token use and its price.

Everything above this floor speaks to a `Model` and does not know whose it is. `afl.models.claude` needs the extra
`claude` and is imported by those who want it.
"""

from __future__ import annotations

from afl.models.conversation import Answer, Question, ask
from afl.models.errors import AnswerError, ModelError, ModelRejected, ModelUnavailable
from afl.models.messages import Block, Message, Opaque, Reply, Request, Text, Tool, ToolResult, ToolUse
from afl.models.model import Model, complete_async
from afl.models.schema import PythonTool, tool_from
from afl.models.scripted import ScriptedModel
from afl.models.usage import PRICES, Price, Prices, Usage

__all__ = [
    "PRICES",
    "Answer",
    "AnswerError",
    "Block",
    "Message",
    "Model",
    "ModelError",
    "ModelRejected",
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
    "ask",
    "complete_async",
    "tool_from",
]
