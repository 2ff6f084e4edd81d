"""One operation of the catalog: its function, what it works on, who may call it, and its place in the HTTP API."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from afl.kernel.bounds import check_name
from afl.kernel.errors import InputError
from afl.operations.roles import Role


class Needs(StrEnum):
    """What an operation works on, given as its first argument."""

    STORE = "store"
    TURNS = "turns"  # the TurnStore of the settings
    FLEET = "fleet"  # a client of the principal
    REDIS = "redis"  # the Where of the settings


@dataclass(frozen=True)
class Operation:
    """One row. `path` is below /api/v1; what it names in braces are parameters of the function. Without a path it is
    for callers in this process alone: what it gives cannot be sent.

    `subject` is what the audit log shows: a parameter, or a field of the result. `local` are parameters that only
    callers in this process can give; `gone` among them is an Event, which the server sets when the caller has hung up.
    `waits`: it may take long, because it waits for something. `slashes`: the name in its path may hold some.

    Two names of parameters have a meaning: `by` is filled in with whoever asks, and never taken from outside; `key` is
    in the header Idempotency-Key.
    """

    name: str
    target: str
    method: str
    path: str
    role: Role
    tag: str
    summary: str
    needs: Needs = Needs.STORE
    subject: str = ""
    local: tuple[str, ...] = ()
    waits: bool = False
    slashes: bool = False

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function itself; MissingExtraError if its part is not installed."""
        module, _, name = self.target.partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(f"afl.operations.{module}"), name)
        return found

    @cached_property
    def signature(self) -> inspect.Signature:
        """The function's, with its annotations as types."""
        return inspect.signature(self.function)

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of parameters and result."""
        return get_type_hints(self.function, include_extras=True)

    @cached_property
    def by(self) -> str:
        """The parameter that tells who asks; empty if it has none."""
        return "by" if "by" in self.signature.parameters else ""

    @cached_property
    def key(self) -> str:
        """The parameter that makes of several attempts one; empty if it has none."""
        return "key" if "key" in self.signature.parameters else ""

    @cached_property
    def patience(self) -> str:
        """The parameter that says how many seconds it may wait; empty if it does not wait."""
        found = (each.name for each in self.parameters if each.name in ("wait", "timeout"))
        return next(found, "") if self.waits else ""

    def waiting_less(self, given: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The arguments of a call that has waited for so long before it began."""
        wait = given.get(self.patience)
        return {**given, self.patience: max(0.0, wait - seconds)} if wait else dict(given)

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """What callers from outside may give."""
        every = list(self.signature.parameters.values())[1:]
        hidden = {self.by, *self.local}
        return [each for each in every if each.name not in hidden]

    @cached_property
    def names(self) -> frozenset[str]:
        """The parameters that name something: those in its path, and the key. One with slashes may be long."""
        return (
            frozenset({*re.findall(r"\{(\w+)\}", self.path), self.key}) if not self.slashes else frozenset()
        )

    def check(self, given: Mapping[str, Any]) -> None:
        """InputError for a name that nothing can have, a text that no store can hold, a number out of its bounds,
        or something else where one of them is meant.

        An empty name is the latest.
        """
        for name, value in given.items():
            if name in self.names and isinstance(value, str) and value:
                check_name(value, name)
            elif isinstance(value, str) and "\0" in value:
                raise InputError(f"{name} holds a character that no text may hold (NUL)")
            elif isinstance(value, (int, float)) or (value is not None and name in self._numbers):
                self._check_type(name, value)
            elif not isinstance(value, str | None) and self.kind_of(name)[0] in (str, str | None):
                raise InputError(f"{name} is a text, got {value!r:.80}")

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """The parameters that take a number."""
        kinds = {name: _split(hint)[0] for name, hint in self.hints.items()}
        return frozenset(name for name, kind in kinds.items() if {kind, *get_args(kind)} & {int, float})

    def _check_type(self, name: str, value: object) -> None:
        try:
            msgspec.convert(value, self.hints[name])
        except msgspec.ValidationError as error:
            raise InputError(f"{name}: {error}") from error

    def kind_of(self, name: str) -> tuple[Any, Meta]:
        """The type of a parameter without its metadata, and the metadata: description and bounds."""
        return _split(self.hints[name])

    @property
    def has_body(self) -> bool:
        """Whether the parameters that the path does not name come in a JSON body."""
        return self.method in ("POST", "PUT", "PATCH")

    @property
    def is_action(self) -> bool:
        """Whether it changes something, and is written down in the audit log.

        What workers do is not: each attempt of a task names its worker, and a heartbeat is no act.
        """
        return self.role not in (Role.VIEWER, Role.WORKER) and self.method != "GET"

    @property
    def description(self) -> str:
        """The function's own text."""
        return inspect.getdoc(self.function) or self.summary


def _split(hint: Any) -> tuple[Any, Meta]:
    if get_origin(hint) is Annotated:
        kind, *notes = get_args(hint)
        return kind, next((each for each in notes if isinstance(each, Meta)), Meta())
    parts = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(parts[0] if parts else None) is Annotated:  # X | None, where X has metadata
        kind, meta = _split(parts[0])
        return kind | None, meta
    return hint, Meta()
