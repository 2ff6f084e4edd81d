"""Figures in memory, as Prometheus reads them: its own parser says so."""

from __future__ import annotations

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from afl.kernel import metrics, telemetry
from afl.kernel.metrics import BUCKETS, BY_NAME, COUNTER, HISTOGRAM, METRICS, Meters, Sample, render


def values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counters_add_up_by_their_labels() -> None:
    kept = Meters()
    kept.count("afl.claims", 2, {"list": "default"})
    kept.count("afl.claims", 3, {"list": "default"})
    kept.count("afl.claims", 1, {"list": 'odd "one"\n\\'})
    kept.count("afl.nobody.knows", 1, {})
    assert values(kept.render()) == {
        ("afl_claims_total", (("list", "default"),)): 5,
        ("afl_claims_total", (("list", 'odd "one"\n\\'),)): 1,
    }


def test_histograms_count_into_buckets() -> None:
    kept = Meters()
    for seconds in (0.0005, 0.003, 0.004, 1_000.0):
        kept.record("afl.handler.seconds", seconds, {"facet": "ns.F"})
    found = values(kept.render())
    facet = ("facet", "ns.F")
    assert found["afl_handler_seconds_count", (facet,)] == 4
    assert found["afl_handler_seconds_sum", (facet,)] == pytest.approx(1_000.0075)
    assert found["afl_handler_seconds_bucket", (facet, ("le", "0.001"))] == 1
    assert found["afl_handler_seconds_bucket", (facet, ("le", "0.005"))] == 3
    assert found["afl_handler_seconds_bucket", (facet, ("le", "300"))] == 3
    assert found["afl_handler_seconds_bucket", (facet, ("le", "+Inf"))] == 4
    assert sum(name == "afl_handler_seconds_bucket" for name, _ in found) == len(BUCKETS) + 1


def test_very_many_series_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_MOST_SERIES", 2)
    kept = Meters()
    for name in ("a", "b", "c", "d", "a"):
        kept.count("afl.claims", 1, {"list": name})
    found = {labels[0][1]: value for (_, labels), value in values(kept.render()).items()}
    assert found == {"a": 2, "b": 1, "other": 2}


def test_samples_come_family_by_family_with_their_meaning() -> None:
    text = render(
        [
            Sample("afl_runs", 3, ("running",)),
            Sample("afl_runner_up", 1),
            Sample("afl_runs", 0.5, ("failed",)),
        ]
    )
    assert text.splitlines() == [
        "# HELP afl_runner_up Whether the runner works.",
        "# TYPE afl_runner_up gauge",
        "afl_runner_up 1",
        "# HELP afl_runs Runs by state.",
        "# TYPE afl_runs gauge",
        'afl_runs{state="failed"} 0.5',
        'afl_runs{state="running"} 3',
    ]


def test_the_table_keeps_to_the_customs_of_prometheus() -> None:
    assert len(BY_NAME) == len(METRICS)
    for each in METRICS:
        assert each.name.startswith("afl_") and each.meaning.endswith(".")
        assert each.name.endswith("_total") == (each.kind == COUNTER)
        assert each.kind != HISTOGRAM or each.name.endswith("_seconds")


def test_what_the_code_counts_is_in_the_table() -> None:
    """The seam's names, as they stand in the sources."""
    named = set(metrics._FIGURES)
    assert {"afl.claims", "afl.handler.seconds", "afl.model.tokens", "afl.turn.seconds"} <= named


def test_threads_lose_nothing() -> None:
    kept = Meters()

    def add() -> None:
        for _ in range(1_000):
            kept.count("afl.claims", 1, {"list": "x"})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(kept.render())["afl_claims_total", (("list", "x"),)] == 4_000


def test_a_process_keeps_figures_once_asked() -> None:
    telemetry.meter(None)
    try:
        kept = metrics.process_meters()
        assert telemetry.is_metering() and metrics.process_meters() is kept
    finally:
        telemetry.meter(None)
