"""How values are put into words on pages: times, durations, amounts, states. The same everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from afl.kernel.clock import wall_ms
from afl.operations.run.run_status import ATTENTION, WAITS_FOR
from afl.operations.run.traceback_parts import traceback_parts
from afl.operations.spans import SECOND, left, plural, span

_MOST_TEXT = 60_000
_DASH = "–"

# Every state word of every part, by the tone in which it is shown.
TONES: Mapping[str, str] = {
    **dict.fromkeys(
        ("completed", "done", "ok", "closed", "success", "succeeded", "delivered", "ready"), "done"
    ),
    **dict.fromkeys(
        ("failed", "error", "crashed", "rejected", "dead", "open", "poisoned", "died", "expired", "lost"),
        "failed",
    ),
    **dict.fromkeys(("running", "working", "active", "processing", "startup", "stopping", "busy"), "running"),
    **dict.fromkeys((f"waiting for {WAITS_FOR[each]}" for each in ATTENTION), "waiting"),
    **dict.fromkeys(("waiting", "pending", "elsewhere", "suspended", "half_open", "retrying"), "waiting"),
    **dict.fromkeys(
        ("caught", "overdue", "hanging", "silent", "warning", "timeout", "failed (allowed)"), "caught"
    ),
    **dict.fromkeys(("paused", "concurrency"), "paused"),
    **dict.fromkeys(("canceled", "ignored", "skipped", "shutdown", "stopped", "released"), "ended"),
    **dict.fromkeys(("created", "queued", "not begun", "unknown", "idle", "scheduled"), "idle"),
}


def tone(state: object) -> str:
    """The tone of a state word."""
    return TONES.get(str(state).lower(), "idle")


def duration(milliseconds: float | None) -> str:
    """A duration in two words at most."""
    if milliseconds is None:
        return _DASH
    if milliseconds < SECOND:
        return f"{max(0, milliseconds):.0f} ms"
    if milliseconds < 100 * SECOND:
        return f"{milliseconds / SECOND:.1f} s"
    minutes, seconds = divmod(round(milliseconds / SECOND), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24:02} h"


def ago(moment: int | None) -> str:
    """How long ago a moment of the wall clock is; it may also lie ahead."""
    if not moment:
        return _DASH
    away = wall_ms() - moment
    if abs(away) < SECOND:
        return "now"
    return f"{span(away)} ago" if away > 0 else f"in {left(-away)}"


def clock(moment: int | None) -> str:
    """A moment in full, in the server's time zone."""
    if not moment:
        return ""
    return datetime.fromtimestamp(moment / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def time_of_day(moment: int | None) -> str:
    """A moment to the millisecond, for logs."""
    return datetime.fromtimestamp(moment / 1000).strftime("%H:%M:%S.%f")[:-3] if moment else ""


def iso(moment: int | None) -> str:
    """A moment for machines."""
    return datetime.fromtimestamp((moment or 0) / 1000).astimezone().isoformat(timespec="milliseconds")


def number(amount: float) -> str:
    """With thousands apart."""
    return f"{amount:,}"


def dollars(amount: float) -> str:
    """An amount of money; small ones with more digits."""
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def size(value: Any) -> str:
    """How much a value holds, in words."""
    if isinstance(value, Mapping):
        return f"{len(value):,} field{'' if len(value) == 1 else 's'}"
    if isinstance(value, list | tuple):
        return f"{len(value):,} item{'' if len(value) == 1 else 's'}"
    return f"{len(str(value)):,} characters"


def as_json(value: Any) -> str:
    """A value as readable JSON, cut where no person would read on."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return (
        text
        if len(text) <= _MOST_TEXT
        else f"{text[:_MOST_TEXT]}\n… {len(text) - _MOST_TEXT:,} more characters"
    )


def one_line(value: Any) -> str:
    """A value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def short(text: object, most: int = 60) -> str:
    """A text on one line of at most so many characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def segment(text: object) -> str:
    """A text as part of a path of a URL; slashes stay, everything with a meaning of its own is encoded."""
    return quote(str(text), safe="/")


def run_url(run: str) -> str:
    """The page of a run."""
    return f"/runs/{quote(run, safe='')}"


def step_url(run: str, path: str) -> str:
    """The page of a step, by its path inside the run; the root is the run itself."""
    return f"{run_url(run)}/steps/{segment(path)}" if path else run_url(run)


def flow_url(flow: str) -> str:
    """The page of a flow."""
    return f"/flows/{segment(flow)}"


def with_query(path: str, **values: Any) -> str:
    """A URL with the parameters that have a value."""
    given = {name: value for name, value in values.items() if value not in ("", None, 0)}
    return f"{path}?{urlencode(given)}" if given else path


FILTERS: dict[str, Callable[..., Any]] = {
    "ago": ago,
    "as_json": as_json,
    "clock": clock,
    "dollars": dollars,
    "duration": duration,
    "iso": iso,
    "number": number,
    "one_line": one_line,
    "segment": segment,
    "short": short,
    "size": size,
    "time_of_day": time_of_day,
    "tone": tone,
    "traceback_parts": traceback_parts,
}
GLOBALS: dict[str, Any] = {
    "flow_url": flow_url,
    "plural": plural,
    "run_url": run_url,
    "waits_for": WAITS_FOR,
    "step_url": step_url,
    "with_query": with_query,
}
