"""Kinds of parameters that several operations share, with the bounds the HTTP API checks and shows."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Limit = Annotated[int, Meta(ge=1, le=100_000, description="How many at most.")]
Position = Annotated[int, Meta(ge=0, le=2**53, description="Where to read on: a number that an answer gave.")]
Skip = Annotated[int, Meta(ge=0, le=1_000_000, description="How many to leave out.")]
LONGEST_SOURCE = 1 << 20
Source = Annotated[str, Meta(max_length=LONGEST_SOURCE, description="A source in AFL.")]
LongPoll = Annotated[float, Meta(ge=0, le=30, description="How long to wait for news, in seconds.")]
Milliseconds = Annotated[int, Meta(ge=0, le=2**53, description="A time, in milliseconds.")]
Dollars = Annotated[float, Meta(ge=0, le=1e12, description="US dollars.")]
Tokens = Annotated[int, Meta(ge=0, le=2**53, description="Tokens of models.")]
