"""Responses of models and results of tools of Pydantic AI as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, ToolCallPart, ToolReturn
from pydantic_core import to_jsonable_python

STORED = "pydantic_ai"  # in the content of a card
RETRY, FAILED = "retry", "tool_failed"
_RETURN: TypeAdapter[ToolReturn[Any]] = TypeAdapter(ToolReturn[Any])


def with_ids(response: ModelResponse, ids: Sequence[str]) -> ModelResponse:
    """The response with these ids for its tool calls."""
    left = iter(ids)
    parts = [
        replace(part, tool_call_id=next(left)) if isinstance(part, ToolCallPart) else part
        for part in response.parts
    ]
    return replace(response, parts=parts)


def response_data(response: ModelResponse) -> Any:
    return ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]


def response_of(data: Any) -> ModelResponse:
    (found,) = ModelMessagesTypeAdapter.validate_python([data])
    assert isinstance(found, ModelResponse)
    return found


def result_data(result: Any) -> tuple[Any, dict[str, Any]]:
    """What a tool returned, as the card of its result has it, and what Pydantic AI needs besides."""
    whole = result if isinstance(result, ToolReturn) else ToolReturn(result)
    data = _RETURN.dump_python(whole, mode="json")
    return data.pop("return_value"), {"plain": whole is not result, "more": data}


def result_of(content: Mapping[str, Any]) -> Any:
    """What a tool returned, from the content of its card; or raises what it raised to be told to the model."""
    error = content.get("error")
    if error is not None:
        raise (ToolFailed if error["code"] == FAILED else ModelRetry)(error["message"])
    stored = content[STORED]
    whole = _RETURN.validate_python({**stored["more"], "return_value": content["result"]})
    return whole.return_value if stored["plain"] else whole


def plain(value: Any) -> Any:
    """Any output as JSON data."""
    return to_jsonable_python(value)
