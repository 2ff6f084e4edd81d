"""Why something is stuck: one reason for any run, step, task or server."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from afl.kernel.clock import wall_ms
from afl.operations.parameters import about
from afl.operations.reason.reasons import Outlook, Reason
from afl.operations.reason.snapshot import DiagnosticSnapshot, first_line
from afl.operations.reason.step_reasons import run_reason, step_reason
from afl.operations.reason.subjects import StepPlace, Subject, find
from afl.operations.reason.task_reasons import task_reason
from afl.operations.spans import clock, span
from afl.operations.work.workers import Liveness, Server, StoreLock, store_lock
from afl.runtime.entities import RunDefinition, TaskDefinition
from afl.runtime.persistence import PersistenceAPI


def server_reason(snapshot: DiagnosticSnapshot, server_id: str) -> Reason:
    """The reason of one server."""
    server = next(each for each in snapshot.servers if each.id == server_id)
    code, sentence, action = _judge(server)
    return Reason(code, "server", server.id, sentence, action)


def _judge(server: Server) -> tuple[str, str, str]:
    """Code, sentence and action, by what can be seen of the server."""
    title, silence = server.title, span(server.ping_age_ms)
    last = clock(wall_ms() - server.ping_age_ms)
    match server.liveness:
        case Liveness.STOPPED:
            return "server-stopped", f"{title} was shut down at {last}.", "Start it again if it is needed."
        case Liveness.STOPPING:
            sentence = f"{title} was shut down and finishes {server.use} tasks; it claims no more."
            return "server-stopping", sentence, "Wait, and start it again if it is needed."
        case Liveness.FAILED:
            error = first_line(str((server.error or {}).get("message", "no error was recorded")))
            return "server-failed", f"{title} gave up at {last}: {error}", "Fix that, then start it again."
        case Liveness.DEAD:
            sentence = f"the process of {title} died; its last sign of life was {silence} ago."
            return "server-dead", sentence, "Start it again; other servers take its work over."
        case Liveness.SILENT:
            sentence = f"{title} has said nothing for {silence}, and its process cannot be checked from here."
            return (
                "server-silent",
                sentence,
                f"Look at {server.name}: is the process there, does it reach the store?",
            )
        case Liveness.HANGING:
            sentence = f"the process of {title} is alive, but has not pinged for {silence}: it is blocked or stopped."
            return "server-hanging", sentence, "Check what it is doing, or restart it."
        case Liveness.STARTING:
            return "server-starting", f"{title} has registered and is about to claim work.", "Wait a moment."
        case _:
            return _working(server)


def _working(server: Server) -> tuple[str, str, str]:
    if server.is_full:
        sentence = f"{server.title} works on {server.use} tasks, as many as it accepts."
        return "server-full", sentence, "Wait, start another server, or raise its --concurrency."
    where = f"list {server.task_list}" if server.task_list else "any list"
    sentence = f"{server.title} is alive, works on {server.use} tasks and claims from {where}."
    return "server-working", sentence, "Nothing to do."


def why(
    store: PersistenceAPI,
    name: Annotated[
        str | None,
        about(
            "A run, task or server, by its id or a prefix of it; a step as RUN/path. Default: the latest run."
        ),
    ] = None,
) -> Reason:
    """Explain why something is stuck, and what to do about it."""
    return explain(store, find(store, name))


def explain(store: PersistenceAPI, subject: Subject) -> Reason:
    """The reason of something that was found; nothing goes on while nobody can write to the store."""
    reason = _reason(DiagnosticSnapshot(store), subject)
    if reason.outlook is Outlook.OVER:
        return reason
    lock = store_lock(store)
    return _resting_on(reason, _locked(lock)) if lock.holder else reason


def _locked(lock: StoreLock) -> Reason:
    sentence = f"{lock.holder} holds the write lock of the store, and nobody else can write to it."
    return Reason("store-locked", "store", "lock", sentence, f"{lock.remedy[0].upper()}{lock.remedy[1:]}.")


def _resting_on(reason: Reason, cause: Reason) -> Reason:
    """The same chain with another cause at its end."""
    return replace(reason, because=cause if reason.because is None else _resting_on(reason.because, cause))


def _reason(snapshot: DiagnosticSnapshot, subject: Subject) -> Reason:
    if isinstance(subject, RunDefinition):
        return run_reason(snapshot, subject)
    if isinstance(subject, StepPlace):
        return step_reason(snapshot, subject)
    if isinstance(subject, TaskDefinition):
        return task_reason(snapshot, subject)
    return server_reason(snapshot, subject.uuid)
