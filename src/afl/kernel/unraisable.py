"""What a function may raise on a thread, and no future can deliver.

`Future.set_exception` refuses StopIteration, and the waiting thread would wait forever. GeneratorExit, SystemExit and
the like come through, and end the coroutine or the loop that waits instead of being a failure of the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from afl.kernel import forked
from afl.kernel.error_text import text_of

P = ParamSpec("P")
T = TypeVar("T")


class UnraisableError(RuntimeError):
    """A function raised what ends generators, coroutines or threads; `raised` is that."""

    def __init__(self, raised: BaseException) -> None:
        name, said = type(raised).__name__, text_of(raised)
        super().__init__(name if said == name else f"{name}: {said}")
        self.raised = self.__cause__ = raised


def as_failure(error: BaseException) -> Exception:
    """The error as one that can be raised anywhere: itself, unless it is none for a coroutine."""
    if isinstance(error, Exception) and not isinstance(error, (StopIteration, StopAsyncIteration)):
        return error
    return UnraisableError(error)


def raised_in(error: Exception) -> BaseException:
    """What a function raised, if `as_failure` made this error of it."""
    return error.raised if isinstance(error, UnraisableError) else error


def failing(function: Callable[P, T]) -> Callable[P, T]:
    """The function, for a thread: whatever it raises is a failure of it."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        before = forked.generation()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            forked.end_child_since(before, _name(function), error)
            raise as_failure(error)  # noqa: B904  # it knows its cause
        forked.end_child_since(before, _name(function), None)
        return result

    return call


def _name(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
