"""`afl agent` and `afl runner`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.console import duration, say
from afl.cli.problems import report
from afl.kernel.observing import observe, stop_tracing
from afl.kernel.setting_kinds import mask_url
from afl.kernel.settings import Settings, load_settings
from afl.operations.program.agents import AgentError
from afl.operations.run import runs
from afl.operations.work.alerting import alerting
from afl.operations.work.hosting import hosted, hosted_names
from afl.operations.work.offers import load_offer
from afl.operations.work.service import (
    Notices,
    ServiceOptions,
    SourceWatch,
    make_service,
    source_folders,
    start_again,
)
from afl.runtime.task_handlers.capture import capturing
from afl.runtime.worker.results import TaskResult

_CONCURRENCY = typer.Option("--concurrency", "-c", min=1, max=1000, help="How many handlers work at a time.")
_NAME = typer.Option("--name", help="Its name in `afl ps`; the host's by default.")
_SHUTDOWN = typer.Option(
    "--shutdown-timeout", min=0, metavar="SECONDS", help="How long handlers may continue after a stop signal."
)
_QUIET = typer.Option("--quiet", "-q", help="No line per task.")


def agent(
    modules: Annotated[
        list[str],
        typer.Argument(
            metavar="MODULE[:NAME]", help="A file or module with @handler functions, or one thing of it."
        ),
    ],
    concurrency: Annotated[int, _CONCURRENCY] = 5,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start again when a source file changes (for development).")
    ] = False,
    task_list: options.TaskList = None,
    name: Annotated[str, _NAME] = "",
    shutdown: Annotated[float, _SHUTDOWN] = 30.0,
    store: options.Store = None,
    quiet: Annotated[bool, _QUIET] = False,
) -> None:
    """Work on tasks with the functions of a module, until stopped.

    It also evaluates submitted runs: one agent is enough to start with, and any number
    of them, on any machine that can reach the store, share the work. SIGTERM and Ctrl+C end it gracefully.

    [bold]Examples[/bold]

      afl agent agents.py
      afl agent agents.py --reload
      afl agent news.agents:registry --concurrency 20 --store postgresql://db/afl
    """
    settings = load_settings({"store": store, "task_list": task_list})
    chosen = ServiceOptions("afl-agent", name, concurrency, round(shutdown * 1000))
    if not reload:
        _serve(settings, modules, chosen, quiet)
        return
    _serve_reloading(settings, modules, chosen, quiet)


def runner(
    modules: Annotated[
        list[str] | None,
        typer.Option("--agent", metavar="MODULE[:NAME]", help="Handlers to serve in addition. Repeatable."),
    ] = None,
    concurrency: Annotated[int, _CONCURRENCY] = 5,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="FACET", help="Serve only this facet. Repeatable.")
    ] = None,
    http_port: Annotated[
        int,
        typer.Option("--http-port", help="Where /health, /status and /metrics are, or the next free port."),
    ] = 8080,
    http_host: Annotated[
        str | None,
        typer.Option(
            "--http-host", metavar="ADDRESS", help="Where the status server listens (AFL_HTTP_HOST)."
        ),
    ] = None,
    http: Annotated[bool, typer.Option("--http/--no-http", help="Whether there is a status server.")] = True,
    task_list: options.TaskList = None,
    name: Annotated[str, _NAME] = "",
    shutdown: Annotated[float, _SHUTDOWN] = 30.0,
    store: options.Store = None,
    quiet: Annotated[bool, _QUIET] = False,
) -> None:
    """Evaluate runs, fire schedules, and take over the work of dead processes, until stopped.

    It answers on http://127.0.0.1:8080/health, /status and /metrics (Prometheus), or on the next free port. With
    --http-host 0.0.0.0, probes on other machines can reach it; it requires no token.

    [bold]Examples[/bold]

      afl runner
      afl runner --agent agents.py --concurrency 10
      afl runner --store postgresql://db/afl --http-port 9000
    """
    settings = load_settings({"store": store, "task_list": task_list, "http_host": http_host})
    chosen = ServiceOptions(
        "afl-runner",
        name,
        concurrency,
        round(shutdown * 1000),
        http_port if http else None,
        tuple(topics or ()),
    )
    _serve(settings, modules or [], chosen, quiet)


def _serve(
    settings: Settings,
    modules: list[str],
    chosen: ServiceOptions,
    quiet: bool,
    watch: SourceWatch | None = None,
) -> bool:
    """Serve until stopped; True if a source changed."""
    changed = threading.Event()
    load_offer(modules)  # what is wrong with them is told before there is a store
    observe(settings, chosen.service)
    with runs.opened(settings) as opened:
        offer = load_offer(modules, opened)

        def started() -> None:
            say(_greeting(settings, chosen, offer.names, service.http_port))

        def reload() -> None:
            changed.set()
            service.stop()

        notices = Notices(
            started, None if quiet else _tell, _stopping(chosen), lambda text: say(text, "yellow")
        )
        with alerting(opened, settings), hosted(opened, settings, offer) as bridges:
            hosts = hosted_names(bridges, settings, offer)
            service = make_service(opened, settings, offer.handlers, chosen, notices, hosts)
            watching = watch.calling(reload) if watch is not None else nullcontext()
            with watching, capturing():
                service.start()
        stuck = service.abandoned
    if not changed.is_set():
        was = "1 task was" if stuck == 1 else f"{stuck} tasks were"
        say(f"Stopped; {was} not done in time and will be done by others." if stuck else "Stopped.", "dim")
    if stuck:  # a handler that does not return must not keep the process alive
        stop_tracing()
        os._exit(0)
    return changed.is_set()


def _serve_reloading(settings: Settings, modules: list[str], chosen: ServiceOptions, quiet: bool) -> None:
    watch = SourceWatch(source_folders(modules))
    try:
        if not _serve(settings, modules, chosen, quiet, watch):
            return
        say("A source changed; starting again.", "cyan")
    except AgentError as error:
        report(error)
        say("Waiting for a change.")
        watch.wait()
    start_again()


def _greeting(settings: Settings, chosen: ServiceOptions, names: list[str], port: int | None) -> Text:
    served = f"serves {', '.join(names)}" if names else "evaluates runs, and serves no facets"
    host = f"[{settings.http_host}]" if ":" in settings.http_host else settings.http_host
    status = f"\n  status on http://{host}:{port}/status" if port is not None else ""
    return Text.assemble(
        (chosen.service, "bold"),
        f" {served}\n  from list {settings.task_list} of {mask_url(settings.store)}, "
        f"{chosen.concurrency} at a time; Ctrl+C ends it.{status}",
    )


def _stopping(chosen: ServiceOptions) -> Callable[[int], None]:
    """Says what is waited for, once the service is to end."""

    def tell(running: int) -> None:
        if running and chosen.shutdown_ms:
            tasks = "1 task" if running == 1 else f"{running} tasks"
            patience = duration(chosen.shutdown_ms)
            say(
                f"Stopping: waiting up to {patience} for {tasks}; Ctrl+C again leaves the rest to others.",
                "dim",
            )

    return tell


def _tell(done: TaskResult, problem: str | None) -> None:
    mark = ("✓", "green") if problem is None else ("✗", "red")
    took = (
        f"  {duration(done.seconds * 1000)}" if done.seconds else ""
    )  # one that was given up has not returned
    attempt = f"  attempt {done.task.deliveries}" if done.task.deliveries > 1 else ""
    text = Text.assemble(mark, " ", (done.task.name, "bold"), (took + attempt, "dim"))
    if problem is not None:
        text.append(f"  {problem}", "red")
        if done.raised_at is not None:
            text.append("".join(f"\n  {line}" for line in done.raised_at.text.split("\n")), "dim")
    say(text)
