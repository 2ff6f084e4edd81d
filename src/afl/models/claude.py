"""Claude. Needs the extra `anthropic`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.kernel.errors import MissingExtraError, pip_install
from afl.models.errors import ModelRejected
from afl.models.naming import CLAUDES
from afl.models.provider_loop import run

try:
    import anthropic
except ModuleNotFoundError as missing:
    if missing.name != "anthropic":
        raise
    raise MissingExtraError(
        f"anthropic is required to use Claude. Install it with: {pip_install('anthropic')}"
    ) from missing

from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from afl.models.provider_model import ProviderModel

DEFAULT_MODEL = "claude-sonnet-4-6"


class ClaudeModel(ProviderModel):
    """A `Model`, asked with the key and at the address that are given, or those of the environment.

    `aliases` are short names that a prompt block or request may use for models; `settings` those of `ModelSettings`.
    """

    key = "ANTHROPIC_API_KEY"

    def __init__(
        self,
        name: str = DEFAULT_MODEL,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        aliases: Mapping[str, str] = CLAUDES,
        **settings: Any,
    ) -> None:
        self._client = _client(api_key, base_url)
        super().__init__(f"anthropic:{aliases.get(name, name)}", aliases=aliases, **settings)

    def why_unavailable(self, name: str = "") -> str:
        """As of any model; the client of Claude is made without a key, too."""
        full = self._full_id(name)
        kinds = ("api_key", "auth_token", "credentials")
        if not full.startswith("anthropic:") or any(getattr(self._client, kind, None) for kind in kinds):
            return super().why_unavailable(name)
        return f"{full} cannot be asked: {self.key} is not set"

    def close(self) -> None:
        """Give back the connections."""
        super().close()
        run(self._client.close())

    def _open(self, full: str) -> PydanticModel:
        provider, _, model = full.partition(":")
        if provider != "anthropic":
            return super()._open(full)
        return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=self._client))


def _client(api_key: str | None, base_url: str | None) -> anthropic.AsyncAnthropic:
    try:
        return anthropic.AsyncAnthropic(api_key=api_key, base_url=base_url)
    except anthropic.AnthropicError as error:
        raise ModelRejected(f"there is no key for Claude that can be read: {error}") from error
