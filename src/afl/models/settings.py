"""How a model is asked: settings of a model, an agent, a facet or one call. What is None is left to the provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from afl.kernel.errors import InputError

Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
S = TypeVar("S", bound="ModelSettings")


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of a call, the same for every provider; what a model does not have, it ignores.

    `tool_choice`: `auto`, `required`, `none`, or the names of tools one of which must be called. `timeout`: seconds for
    the whole call with its retries. `max_retries`: how often a provider's client sends again what was refused for load,
    or failed on the way, after the time that the provider asks for. `fallback`: the names of models to ask instead, in
    order, when the model cannot be asked. `extra`: settings of one provider, by the names of Pydantic AI.
    """

    temperature: float | None = None
    top_p: float | None = None
    tool_choice: Literal["auto", "required", "none"] | list[str] | None = None
    parallel_tool_calls: bool | None = None
    thinking: bool | Effort | None = None
    timeout: float | None = None
    max_retries: int | None = None
    fallback: tuple[str, ...] = ()
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout is {self.timeout}; expected seconds, more than 0")
        if self.max_retries is not None and self.max_retries < 0:
            raise ValueError(f"max_retries is {self.max_retries}; expected at least 0")

    def over(self, other: ModelSettings) -> ModelSettings:
        """These, and those of `other` that are not set here."""
        names = ModelSettings.__struct_fields__
        own = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(_NONE, name)}
        return ModelSettings(**{name: getattr(other, name) for name in names} | own)


_NONE = ModelSettings()


def read_settings(kind: type[S], given: Mapping[str, Any], what: str) -> S:
    """The settings in plain data; InputError names what cannot be read, and what is no setting."""
    unknown = [name for name in given if name not in kind.__struct_fields__]
    if unknown:
        known = ", ".join(kind.__struct_fields__)
        raise InputError(f"{what}: there is no setting {unknown[0]!r}; there are: {known}")
    try:
        return msgspec.convert(dict(given), kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{what}: {error}") from error
