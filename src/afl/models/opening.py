"""A model from what a program gives for one: its name, a model of Pydantic AI, or any `Model`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from afl.kernel.errors import InputError
from afl.models.model import Model
from afl.models.naming import is_address

if TYPE_CHECKING:
    from pydantic_ai.models import Model as PydanticModel

AnyModel: TypeAlias = "Model | PydanticModel | str"


def as_model(given: AnyModel, what: str = "model") -> Model:
    """The model that is meant: by its name, or one of Pydantic AI, or one that is a `Model` already.

    InputError for anything else; MissingExtraError where the client of the provider is not installed.
    """
    if isinstance(given, str):
        return named_model(given)
    if _is_of_pydantic_ai(given):
        from afl.models.provider_model import ProviderModel  # noqa: PLC0415  needs an extra

        return ProviderModel(cast("PydanticModel", given))
    if not isinstance(given, Model):
        raise InputError(f"`{what}` is a {type(given).__name__}; expected a model, or the name of one")
    return given


def is_model(given: Any) -> bool:
    """Whether it is a model, ours or one of Pydantic AI."""
    return isinstance(given, Model) or _is_of_pydantic_ai(given)


def named_model(name: str) -> Model:
    """A model by its name; one without a provider is a Claude's."""
    provider, colon, model = name.partition(":")
    if not is_address(name) and (not colon or provider == "anthropic"):
        from afl.models.claude import ClaudeModel  # noqa: PLC0415  needs an extra

        return ClaudeModel(model if colon else name)
    from afl.models.provider_model import ProviderModel  # noqa: PLC0415  needs an extra

    return ProviderModel(name)


def _is_of_pydantic_ai(given: Any) -> bool:
    """Without importing it, which takes a second: who has one of its models has imported it."""
    module = sys.modules.get("pydantic_ai.models")
    return module is not None and isinstance(given, module.Model)
