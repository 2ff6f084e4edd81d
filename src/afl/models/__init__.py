"""Language models: requests and replies, tools made from functions, structured answers, token use and its price.

Everything above this floor speaks to a `Model` and does not know whose it is. `afl.models.provider_model` and
`afl.models.claude` need the extra of a provider, and are imported by those who want them.

Every name is loaded when it is first asked for: a store keeps what models cost, and needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.kernel.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl.models.content import File as File
    from afl.models.content import FileUrl as FileUrl
    from afl.models.conversation import Answer as Answer
    from afl.models.conversation import Question as Question
    from afl.models.conversation import ask as ask
    from afl.models.errors import AnswerError as AnswerError
    from afl.models.errors import ModelError as ModelError
    from afl.models.errors import ModelRejected as ModelRejected
    from afl.models.errors import ModelUnavailable as ModelUnavailable
    from afl.models.messages import Block as Block
    from afl.models.messages import Message as Message
    from afl.models.messages import Opaque as Opaque
    from afl.models.messages import Reply as Reply
    from afl.models.messages import Request as Request
    from afl.models.messages import Text as Text
    from afl.models.messages import Tool as Tool
    from afl.models.messages import ToolResult as ToolResult
    from afl.models.messages import ToolUse as ToolUse
    from afl.models.model import Model as Model
    from afl.models.model import complete_async as complete_async
    from afl.models.opening import as_model as as_model
    from afl.models.schema import PythonTool as PythonTool
    from afl.models.schema import tool_from as tool_from
    from afl.models.scripted import ScriptedModel as ScriptedModel
    from afl.models.settings import ModelSettings as ModelSettings
    from afl.models.usage import PRICES as PRICES
    from afl.models.usage import Price as Price
    from afl.models.usage import Prices as Prices
    from afl.models.usage import Usage as Usage

if not TYPE_CHECKING:  # a type checker takes the imports above, and reports what is not there
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "content": "File FileUrl",
            "conversation": "Answer Question ask",
            "errors": "AnswerError ModelError ModelRejected ModelUnavailable",
            "messages": "Block Message Opaque Reply Request Text Tool ToolResult ToolUse",
            "model": "Model complete_async",
            "opening": "as_model",
            "schema": "PythonTool tool_from",
            "scripted": "ScriptedModel",
            "settings": "ModelSettings",
            "usage": "PRICES Price Prices Usage",
        },
    )
