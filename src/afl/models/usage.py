"""Tokens and what they cost.

Prices are those of the package genai-prices, which comes with the extra of any provider, unless others are given. A
model that it does not list has an unknown cost, never a cost of nothing: give its price (`PRICES.adding(...)`), in US
dollars per million tokens, to have it counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

_VERSION = re.compile(r"(?:[-@]\d{8}|-latest)$")
_LISTED = re.compile(r"(claude|gpt|chatgpt|o\d|gemini)\b|[\w-]+:(?!//)")
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or of several together. What came from a cache, or went into one, is no part of the input."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """All of them."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens. Reading a cache costs a tenth of the input, filling one a quarter more."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """In US dollars."""
        read = self.input * 0.1 if self.cache_read is None else self.cache_read
        write = self.input * 1.25 if self.cache_write is None else self.cache_write
        return (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
        ) / _MILLION


@dataclass(frozen=True)
class Prices:
    """Prices by family, which is the name of a model without the date of its version; for others, the list's."""

    by_family: Mapping[str, Price] = field(default_factory=dict)

    def of(self, model: str) -> Price | None:
        """The price that was given for a model: of exactly that name, else of its family; None without one."""
        return self.by_family.get(model) or self.by_family.get(_VERSION.sub("", model))

    def cost(self, model: str, usage: Usage) -> float | None:
        """In US dollars; None when the price is not known. What used no token cost nothing, whoever it was."""
        if not usage.total_tokens:
            return 0.0
        price = self.of(model)
        return _listed_cost(model, usage) if price is None else price.cost(usage)

    def adding(self, prices: Mapping[str, Price]) -> Prices:
        """The same with more prices, or other ones."""
        return Prices({**self.by_family, **prices})


PRICES = Prices()


def _listed_cost(model: str, usage: Usage) -> float | None:
    """By the list, which is read only for names that may be in it: that takes a third of a second, once."""
    if not _LISTED.match(model):
        return None
    try:
        from genai_prices import Usage as Tokens  # noqa: PLC0415  comes with an extra
        from genai_prices import calc_price  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    provider, colon, name = model.partition(":")
    tokens = Tokens(
        input_tokens=usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    for each in dict.fromkeys((name, _VERSION.sub("", name)) if colon else (model, _VERSION.sub("", model))):
        with suppress(LookupError):
            return float(calc_price(tokens, each, provider_id=provider if colon else None).total_price)
    return None


def dollars(amount: float) -> str:
    """With cents, and with as many more digits as a small amount needs to be more than nothing."""
    digits = 2
    while digits < 6 and amount and round(amount, digits) != round(amount, 6):
        digits += 1
    return f"{amount:.{digits}f}"
