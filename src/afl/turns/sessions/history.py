"""What a turn reads of the turns before it in its session: all, the last ones, or a summary and the last ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from msgspec import Struct, ValidationError, convert

from afl.kernel.codec import decode, encode
from afl.kernel.database import Transaction, queries
from afl.kernel.errors import InputError
from afl.models.content import estimated_tokens
from afl.turns.cardbox.card_store import card_of
from afl.turns.cardbox.cards import Card
from afl.turns.cardbox.parts import files_of, without_data
from afl.turns.statuses import CardType

Q = queries("afl.turns.store", "sql/sessions")
_BYTES_PER_TOKEN = 4
_NAMES = ("last", "tokens", "summary", "summary_model")


class History(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a session a turn reads. Turns that do not fit are left out or, with `summary`, summarized.

    `tokens` is compared with an estimate: four bytes of text are a token.
    """

    last: int | None = None
    tokens: int | None = None
    summary: bool = False
    summary_model: str = ""

    @property
    def is_all(self) -> bool:
        return self.last is None and self.tokens is None


def read_history(data: Any) -> History:
    """A policy; InputError names what is wrong with it."""
    if not isinstance(data, Mapping):
        raise InputError(f'history is {data!r}; expected limits by name, such as {{"last": 20}}')
    try:
        policy = convert(dict(data), History)
    except ValidationError as error:
        raise InputError(f"history: {error}; known are {', '.join(_NAMES)}") from error
    for name in ("last", "tokens"):
        value = getattr(policy, name)
        if value is not None and value < 0:
            raise InputError(f"history: {name} is {value}; expected at least 0")
    if policy.summary and policy.is_all:
        raise InputError("history: a summary needs a limit beyond which it is made: last or tokens")
    return policy


def check_history(data: Any) -> dict[str, Any]:
    """The same mapping, of which a policy can be read."""
    read_history(data)
    return dict(data)


@dataclass(frozen=True, slots=True)
class PastTurn:
    """The cards of an earlier turn: what it was told, and what it wrote."""

    position: int
    cards: tuple[Card, ...]

    @property
    def tokens(self) -> int:
        return sum(map(estimate, self.cards))


@dataclass(frozen=True, slots=True)
class Unsummarized:
    """Turns that no longer fit, of which a model is to make a summary: those before `up_to`, after what it knows."""

    known: str
    turns: Sequence[PastTurn]
    up_to: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """What a turn reads of its session: cards, and what is to be summarized first."""

    cards: Sequence[Card]
    unsummarized: Unsummarized | None = None


def estimate(card: Card) -> int:
    """About how many tokens a card is."""
    said = encode([without_data(card.content), card.tool_calls], what="a card", limit=1 << 40)
    return len(said) // _BYTES_PER_TOKEN + sum(map(estimated_tokens, files_of(card.content)))


def is_member(card: Card) -> bool:
    """Whether a card says which turns of a session come before it, and there are any."""
    return card.type == CardType.SESSION and card.content["data"]["position"] > 0


def past_of(tx: Transaction, project: str, card: Card, agents: Mapping[str, Any] | None) -> Past:
    """What the turn with this `sys.session` card reads of its session; `agents`: the policy of its profile."""
    about = card.content["data"]
    where = {"project": project, "session": about["session_id"]}
    row = tx.one(Q.get_session, **where)
    if row is None:  # it was deleted
        return Past(())
    policy = read_history(_policy(row["history"]) or agents or {})
    summary = _last_summary(tx, where, about["position"]) if policy.summary else None
    low = 0 if summary is None else int(summary.metadata["up_to"])
    if policy.last is not None and not policy.summary:
        low = max(low, about["position"] - policy.last)
    turns = _turns(tx, where, low, about["position"])
    return _chosen(policy, summary, turns)


def _chosen(policy: History, summary: Card | None, turns: Sequence[PastTurn]) -> Past:
    known = [] if summary is None else [summary]
    kept = fitting(turns, policy.last, policy.tokens)
    if len(kept) == len(turns) or not policy.summary:
        return Past([*known, *_cards(kept)])
    # half of the room stays free, so that not every turn needs a summary
    kept = fitting(turns, _half(policy.last), _half(policy.tokens))
    dropped = turns[: len(turns) - len(kept)]
    said = "" if summary is None else str(summary.content["text"])
    wanted = Unsummarized(said, dropped, dropped[-1].position + 1, policy.summary_model)
    return Past([*known, *_cards(kept)], wanted)


def fitting(turns: Sequence[PastTurn], last: int | None, tokens: int | None) -> Sequence[PastTurn]:
    """As many of the last turns as the limits allow."""
    kept, used = 0, 0
    for turn in reversed(turns):
        used += turn.tokens
        if (last is not None and kept >= last) or (tokens is not None and used > tokens):
            break
        kept += 1
    return turns[len(turns) - kept :]


def _half(limit: int | None) -> int | None:
    return None if limit is None else limit // 2


def _cards(turns: Sequence[PastTurn]) -> list[Card]:
    return [card for turn in turns for card in turn.cards]


def _policy(stored: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = decode(stored)
    return found


def _last_summary(tx: Transaction, where: Mapping[str, Any], position: int) -> Card | None:
    row = tx.one(Q.last_summary, **where, position=position)
    return None if row is None else card_of(row)


def _turns(tx: Transaction, where: Mapping[str, Any], low: int, high: int) -> list[PastTurn]:
    rows = tx.all(Q.history, **where, low=low, high=high)
    return [
        PastTurn(position, tuple(card_of(row) for row in group))
        for position, group in groupby(rows, key=lambda row: int(row["turn"]))
    ]
