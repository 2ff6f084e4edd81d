"""`afl signal`: deliver a signal to a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from afl.cli import options
from afl.cli.clients import client_for
from afl.cli.console import print_json, say
from afl.kernel import codec
from afl.operations.people.forms import parse
from afl.operations.run import signaling
from afl.runtime.signals import Delivery


def signal(
    run: options.Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name, as the workflow has it.")],
    value: Annotated[
        str | None,
        typer.Option("--value", "-v", metavar="JSON", help="The return values of the facet, as an object."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="NAME=VALUE",
            callback=options.checked_pairs,
            help="One of the return values; a text as it is, all else as JSON. Repeatable.",
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            callback=options.checked_id,
            help="An id of this delivery: repeating it changes nothing.",
        ),
    ] = None,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Deliver a signal: the oldest step that waits for it ([bold]with Signal[/bold]) continues with the value.

    It is kept while no step waits for it. The value is checked against the facet's return clause first.

    [bold]Examples[/bold]

      afl signal 01jd3v paid --input amount=12.5
      afl signal 01jd3v paid --value '{"amount": 12.5}' --id invoice-7
    """
    if value is not None and inputs:
        raise typer.BadParameter("give --value or --input, not both")
    with client_for(store, server) as client:
        given = _object(value)
        if inputs:
            pairs = (each.partition("=") for each in inputs)
            given = parse(
                client.call(signaling.signal_form, run, name), {key: text for key, _, text in pairs}
            )
        done = client.call(signaling.send_signal, run, name, given, id=id or "")
    print_json(asdict(done)) if as_json else say(_told(done))


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = codec.read(text)
    except (ValueError, RecursionError) as error:  # also of an argument that is not UTF-8
        raise typer.BadParameter(f"--value is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise typer.BadParameter("--value is an object of return values by name: '{\"amount\": 12.5}'")
    return found


def _told(done: Delivery) -> str:
    before = "" if done.delivered else f" before, by the id {done.id}; nothing was changed"
    goes_on = f"received by {done.step}; the next server continues it (or: afl resume {done.run})"
    where = goes_on if done.step else "kept until a step waits for it"
    return f"Signal {done.name} was delivered to run {done.run}{before}; {where}"
