"""Metrics of this process: counters, gauges and histograms, and their table for Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from afl.kernel import telemetry
from afl.kernel.telemetry import Attribute

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One family."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def _row(name: str, kind: str, labels: str, meaning: str) -> Metric:
    return Metric(name, kind, tuple(labels.split()), meaning)


# What a process counts while it works; each process has its own.
PROCESS = (
    _row("afl_claims_total", COUNTER, "list", "Tasks claimed."),
    _row("afl_claim_wait_seconds", HISTOGRAM, "list", "From the creation of a task to its claim."),
    _row(
        "afl_doorbell_lag_seconds", HISTOGRAM, "list", "The same, of tasks for which a free worker was woken."
    ),
    _row("afl_handler_seconds", HISTOGRAM, "facet", "How long handlers worked, well or not."),
    _row("afl_evaluation_seconds", HISTOGRAM, "", "How long it took to evaluate a run once."),
    _row("afl_commit_seconds", HISTOGRAM, "", "How long it took to store what came of evaluations."),
    _row("afl_runs_ended_total", COUNTER, "state", "Runs that this process brought to their end."),
    _row("afl_store_errors_total", COUNTER, "", "Times that the store failed and was tried again."),
    _row("afl_model_seconds", HISTOGRAM, "model", "How long calls to models took."),
    _row("afl_model_tokens_total", COUNTER, "model kind", "Tokens of models; the kind is input or output."),
    _row("afl_tool_seconds", HISTOGRAM, "tool", "How long tools of turns worked, well or not."),
    _row("afl_turns_ended_total", COUNTER, "status", "Turns that this process brought to their end."),
    _row("afl_turn_seconds", HISTOGRAM, "", "From the request of a turn to its end."),
    _row("afl_breaker_changes_total", COUNTER, "breaker state", "Changes of circuit breakers seen here."),
)

# What a runner tells of itself.
RUNNER = (
    _row("afl_runner_up", GAUGE, "", "Whether the runner works."),
    _row("afl_runner_uptime_seconds", GAUGE, "", "How long it has been working."),
    _row("afl_runner_active_tasks", GAUGE, "", "Tasks in hand."),
    _row("afl_runner_capacity", GAUGE, "", "How many handlers may work at a time."),
    _row("afl_runner_tasks_total", COUNTER, "facet outcome", "Tasks worked on, by facet and outcome."),
)

# What the store holds; the same in every process.
STORE = (
    _row(
        "afl_tasks",
        GAUGE,
        "list facet state hold",
        "Open tasks; a hold says why a pending one waits.",
    ),
    _row("afl_oldest_task_seconds", GAUGE, "list", "Age of the oldest task that can be claimed."),
    _row("afl_runs", GAUGE, "state", "Runs by state."),
    _row("afl_approvals_waiting", GAUGE, "group", "Approvals that wait for a person."),
    _row("afl_oldest_approval_seconds", GAUGE, "group", "Age of the oldest approval that waits."),
    _row(
        "afl_elsewhere_tasks",
        GAUGE,
        "via",
        "Tasks that are done elsewhere: agent, fleet, message, human, signal, run.",
    ),
    _row("afl_servers", GAUGE, "liveness", "Servers that registered, by what is known of them."),
)

TURNS = (
    _row("afl_turn_inbox", GAUGE, "project status", "Messages that agents have not dealt with."),
    _row("afl_turn_inbox_oldest_seconds", GAUGE, "project", "Age of the oldest of them."),
    _row("afl_turns_active", GAUGE, "project status", "Agents in a turn: dispatched, running or suspended."),
    _row("afl_turn_waits", GAUGE, "project", "Tool calls that turns wait for."),
    _row("afl_turn_outbox", GAUGE, "project", "Messages that are stored and not published yet."),
    _row("afl_turn_outbox_lag_seconds", GAUGE, "project", "Age of the oldest of them."),
)

FLEET = (
    _row("afl_fleet_runs", GAUGE, "status", "Runs of the fleet that are not over."),
    _row("afl_fleet_agents", GAUGE, "alive", "Agents of the fleet that were seen recently."),
)

MESSAGES = (
    _row(
        "afl_queue_messages",
        GAUGE,
        "agent state",
        "Messages for an agent: ready, delayed, in_flight or dead.",
    ),
    _row("afl_queue_oldest_seconds", GAUGE, "agent", "How long the oldest ready message has been ready."),
    _row("afl_breakers", GAUGE, "state", "Circuit breakers by state."),
)

PARTS = (_row("afl_part_up", GAUGE, "part", "Whether a part could be asked for its figures."),)

METRICS: tuple[Metric, ...] = (*PROCESS, *RUNNER, *STORE, *TURNS, *FLEET, *MESSAGES, *PARTS)
BY_NAME = {each.name: each for each in METRICS}


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MOST_SERIES = 1_000  # of one figure: labels come from names that people choose, and there may be many

Labels: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One value, with the values of its labels in the order of the table."""

    name: str
    value: float
    labels: Labels = ()


@dataclass(slots=True)
class _Distribution:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(BUCKETS, value)] += 1
        self.total += value


class Meters:
    """The meter of `afl.kernel.telemetry` that remembers. Safe to use from several threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._counts: dict[str, dict[Labels, float]] = {}
        self._distributions: dict[str, dict[Labels, _Distribution]] = {}

    def count(self, name: str, amount: int, attributes: Mapping[str, Attribute]) -> None:
        metric = _FIGURES.get(name)
        if metric is None:
            return
        with self._guard:
            series = self._counts.setdefault(metric, {})
            labels = _bounded(series, _labels(metric, attributes))
            series[labels] = series.get(labels, 0) + amount

    def record(self, name: str, value: float, attributes: Mapping[str, Attribute]) -> None:
        metric = _FIGURES.get(name)
        if metric is None:
            return
        with self._guard:
            series = self._distributions.setdefault(metric, {})
            labels = _bounded(series, _labels(metric, attributes))
            found = series.get(labels)
            if found is None:
                found = series[labels] = _Distribution()
            found.add(value)

    def render(self) -> str:
        """Everything so far."""
        with self._guard:
            counts = [
                Sample(name, value, labels)
                for name, by in self._counts.items()
                for labels, value in by.items()
            ]
            lines = [line for name, by in sorted(self._distributions.items()) for line in _family(name, by)]
        return render(counts) + "".join(f"{line}\n" for line in lines)


_own = Meters()


def process_meters() -> Meters:
    """The meters of this process; it keeps figures from the first call on."""
    if not telemetry.is_metering():
        telemetry.meter(_own)
    return _own


def render(samples: Iterable[Sample]) -> str:
    """Samples as Prometheus reads them, family by family in the order of the table."""
    families: dict[str, list[Sample]] = {}
    for sample in samples:
        families.setdefault(sample.name, []).append(sample)
    lines: list[str] = []
    for metric in METRICS:
        if metric.name in families:
            lines += _heading(metric.name)
            for each in sorted(families[metric.name], key=lambda sample: sample.labels):
                lines.append(f"{each.name}{_label_text(metric.labels, each.labels)} {_number(each.value)}")
    return "".join(f"{line}\n" for line in lines)


def _seam_name(name: str) -> str:
    return name.removesuffix("_total").replace("_", ".")


_FIGURES = {_seam_name(each.name): each.name for each in PROCESS}


def _labels(metric: str, attributes: Mapping[str, Attribute]) -> Labels:
    return tuple([str(attributes.get(name, "")) for name in BY_NAME[metric].labels])


def _bounded(series: Mapping[Labels, object], labels: Labels) -> Labels:
    """What comes after very many is counted together."""
    return labels if labels in series or len(series) < _MOST_SERIES else ("other",) * len(labels)


def _heading(name: str) -> list[str]:
    metric = BY_NAME[name]
    return [f"# HELP {name} {metric.meaning}", f"# TYPE {name} {metric.kind}"]


def _family(name: str, series: Mapping[Labels, _Distribution]) -> list[str]:
    shown = [line for labels, found in sorted(series.items()) for line in _lines(name, labels, found)]
    return [*_heading(name), *shown]


def _lines(name: str, labels: Labels, found: _Distribution) -> list[str]:
    names = (*BY_NAME[name].labels, "le")
    lines, sum_so_far = [], 0
    for bound, count in zip((*map(_number, BUCKETS), "+Inf"), found.counts, strict=True):
        sum_so_far += count
        lines.append(f"{name}_bucket{_label_text(names, (*labels, bound))} {sum_so_far}")
    own = _label_text(names[:-1], labels)
    return [*lines, f"{name}_sum{own} {_number(found.total)}", f"{name}_count{own} {sum_so_far}"]


def _label_text(names: Iterable[str], values: Iterable[str]) -> str:
    pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return repr(round(value, 9)) if value != int(value) else str(int(value))
