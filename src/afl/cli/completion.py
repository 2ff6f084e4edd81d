"""What a shell offers for an argument: run ids, workflow names and task lists.

A key press must print nothing but words, so whatever goes wrong, there are none.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress

import typer

Offer = list[tuple[str, str]]
"""Words, each with a line about it, which zsh and fish show."""


def run_ids(ctx: typer.Context, incomplete: str) -> Offer:
    """The latest runs whose id begins so."""
    return _asked("run_ids", ctx, incomplete)


def workflow_names(ctx: typer.Context, incomplete: str) -> Offer:
    """The workflows of the file that is named before; else those of the latest runs."""
    return _asked("workflow_names", ctx, incomplete)


def task_lists(ctx: typer.Context, incomplete: str) -> Offer:
    """The task lists of the latest runs and of the servers."""
    return _asked("task_lists", ctx, incomplete)


def completion_of(parameter: str, word: str) -> Callable[[typer.Context, str], Offer] | None:
    """What is offered for a parameter of an operation, by its name and by its word on the command line."""
    if "RUN" in word.split("|", maxsplit=1)[0].split() or (parameter, word) == ("name", "ID"):
        return run_ids
    return {"workflow": workflow_names, "task_list": task_lists}.get(parameter)


def _asked(name: str, ctx: typer.Context, incomplete: str) -> Offer:
    with suppress(Exception):
        offers = importlib.import_module("afl.cli.offers")  # the store, which --help does not need
        found: Offer = getattr(offers, name)(ctx.params, incomplete)
        return found
    return []
