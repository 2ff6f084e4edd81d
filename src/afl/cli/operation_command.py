"""Commands made from the catalog of operations.

A command that calls one operation and prints its result is a function that renders the result:

    @operation_command(list_runs, state="--state", workflow="--workflow NAME", limit="--limit -n", examples="afl list")
    def list_(page: RunPage) -> None: ...

Its help is the operation's docstring; types, defaults, bounds and descriptions of its arguments and options are those
of the operation's parameters; keyword-only parameters of the renderer are options of the command alone. Where the
operation runs (--store, --server, --redis ...) follows from what it needs. `--json` prints the result as it is.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import (
    Annotated,
    Any,
    Concatenate,
    NamedTuple,
    Optional,
    ParamSpec,
    TypeVar,
    get_type_hints,
)

import typer

from afl.cli import options
from afl.cli.clients import client_for
from afl.cli.completion import completion_of
from afl.cli.console import print_json
from afl.kernel.settings import load_settings
from afl.operations import serialization
from afl.operations.catalog import operation_of
from afl.operations.operation import Needs, Operation

P = ParamSpec("P")
T = TypeVar("T")
_Call = Callable[..., Any]
_UNSHOWN = 10**9  # a bound that only protects the store is not worth showing
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def operation_command(
    function: Callable[Concatenate[Any, ...], T],
    /,
    *,
    examples: str,
    data: Callable[[T], Any] = serialization.plain,
    refusal: Callable[[T], str] = lambda result: "",
    **words: str,
) -> Callable[[Callable[Concatenate[T, P], None]], Callable[..., None]]:
    """Make a command of the renderer below it.

    `words` give each parameter its word: `RUN` for an argument, `--limit -n` or `--name FACET` for an option; what has
    none keeps its default. `data` is what `--json` prints. A result with a `refusal` is an error: exit code 1.
    """

    def decorate(render: Callable[Concatenate[T, P], None]) -> Callable[..., None]:
        operation = operation_of(function)
        connection = _CONNECTIONS[operation.needs]
        own = [_parameter(operation, name, word) for name, word in words.items()]
        shown = _render_options(render)
        extra = [each for each in shown if each.name not in {*words, *connection.options}]
        parameters = [*own, *extra, *_options(connection.options), *_options({"as_json": options.AsJson})]

        def command(**given: Any) -> None:
            where = {name: given[name] for name in connection.options}
            arguments = {name: given[name] for name in words if given[name] is not None}
            with connection.opened(**where) as call:
                result = call(function, **arguments)
            if given["as_json"]:
                print_json(data(result))
            else:
                render(result, **{each.name: given[each.name] for each in shown})  # type: ignore[call-arg]
            if refused := refusal(result):
                from afl.cli.problems import problem  # noqa: PLC0415  the language, to show its errors

                problem(refused, code="refused")
                raise typer.Exit(1)

        command.__name__, command.__module__ = render.__name__, render.__module__
        command.__doc__ = f"{_help(operation.description)}\n\n{_examples(examples)}"
        return _with_parameters(command, parameters)

    return decorate


def unless_subcommand(command: Callable[..., None]) -> Callable[..., None]:
    """A callback of a group: the command runs if the group is called without one."""

    def callback(context: typer.Context, **given: Any) -> None:
        if context.invoked_subcommand is None:
            command(**given)

    context = inspect.Parameter("context", _KEYWORD, annotation=typer.Context)
    return _with_parameters(callback, [context, *inspect.signature(command).parameters.values()])


def _with_parameters(
    function: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """The function with the signature that Typer reads."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def _help(text: str) -> str:
    """A docstring as Typer shows it: what stands in backticks is bold, and a bracket is no markup."""
    return re.sub(r"`([^`]+)`", r"[bold]\1[/bold]", text.replace("[", r"\["))


def _examples(text: str) -> str:
    lines = [f"  {line}" for line in inspect.cleandoc(text).splitlines()]
    return "\n".join(["[bold]Examples[/bold]", "", *lines])


def _parameter(operation: Operation, name: str, word: str) -> inspect.Parameter:
    """The argument or option of the command that gives the operation this parameter."""
    own = operation.signature.parameters[name]
    kind, meta = operation.kind_of(name)
    default = own.default
    choices = (meta.extra or {}).get("choices", ())
    if choices:
        kind, default = Optional[StrEnum(name, {each.upper(): each for each in choices})], default or None  # noqa: UP045
    flags = [each for each in word.split() if each.startswith("-")]
    metavar = " ".join(each for each in word.split() if not each.startswith("-")) or None
    most = meta.le if meta.le is None or meta.le < _UNSHOWN else None
    about: dict[str, Any] = {"metavar": metavar, "help": meta.description, "min": meta.ge, "max": most}
    about["autocompletion"] = completion_of(name, word) if operation.needs is Needs.STORE else None
    info = typer.Option(*flags, **about) if flags else typer.Argument(**about)
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=Annotated[kind, info])


def _render_options(render: Callable[..., None]) -> list[inspect.Parameter]:
    hints = get_type_hints(render, include_extras=True)
    every = inspect.signature(render).parameters.values()
    return [each.replace(annotation=hints[each.name]) for each in every if each.kind is _KEYWORD]


def _options(kinds: Mapping[str, Any]) -> list[inspect.Parameter]:
    off = {"as_json": False, "prefix": "ao"}
    return [
        inspect.Parameter(name, _KEYWORD, default=off.get(name), annotation=kind)
        for name, kind in kinds.items()
    ]


class _Connection(NamedTuple):
    """What an operation works on: the options that name it, and how a function is called with it."""

    options: Mapping[str, Any]
    opened: Callable[..., AbstractContextManager[_Call]]


@contextmanager
def _at_store(**where: Any) -> Iterator[_Call]:
    with client_for(**where) as client:
        yield client.call


@contextmanager
def _at_redis(redis: str | None, prefix: str) -> Iterator[_Call]:
    coordination = importlib.import_module("afl.operations.message.coordination")  # needs its extra
    where = coordination.Where(load_settings({"redis": redis}).redis, prefix)
    yield lambda function, **given: function(where, **given)


@contextmanager
def _at_principal(host: str | None, port: int | None) -> Iterator[_Call]:
    fleet = importlib.import_module("afl.operations.fleet.fleet")  # needs its extra
    with fleet.connected(fleet.settings_for(host, port)) as client:
        yield lambda function, **given: function(client, **given)


_STORE = {"store": options.Store, "server": options.Server}
_TURNS = {
    "store": options.Store,
    "bus": options.Bus,
    "project": options.Project,
    "server": options.Server,
}
_CONNECTIONS = {
    Needs.STORE: _Connection(_STORE, _at_store),
    Needs.TURNS: _Connection(_TURNS, _at_store),
    Needs.REDIS: _Connection({"redis": options.Redis, "prefix": options.Prefix}, _at_redis),
    Needs.FLEET: _Connection({"host": options.Host, "port": options.Port}, _at_principal),
}
