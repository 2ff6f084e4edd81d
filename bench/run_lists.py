"""Lists and search of many runs: what a page takes with 1,000,000 of them, beside what it takes with 10,000."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from afl.kernel.clock import wall_ms
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.store import open_store
from bench.report import Report

SMALL, LARGE = 10_000, 1_000_000
HITS = 1_000  # runs that have the word, the tag and the duration that are looked for: as many among many as among few
BATCH = 1_000
PAGES = {
    "first page": "/runs",
    "failed ones": "/runs?state=failed",
    "waiting ones": "/runs?state=waiting",
    "of one workflow": "/runs?workflow=shop.Workflow7",
    "a word of an input": "/runs?text=needle",
    "a word and a state": "/runs?text=needle&state=failed",
    "no such word": "/runs?text=nothinglikethis",
    "a tag": "/runs?tag=kind%3Drare",
    "a long duration": "/runs?longer=1h",
    "an id's beginning": "/runs?text=run-00000001",
}

Make = Callable[[int, int, str], RunDefinition]  # a run by its number, when it was created, and its program
Measure = Callable[[str], dict[str, float]]  # the milliseconds of each of PAGES, on a store


def fill(store: PersistenceAPI, make: Make, program: str, numbers: range) -> None:
    """Runs as if a minute lay between each and the next, indexed."""
    now = wall_ms()
    for start in range(numbers.start, numbers.stop, BATCH):
        batch = [
            _marked(make(number, now - (LARGE - number) * 60_000, program), number)
            for number in numbers[start - numbers.start :][:BATCH]
        ]
        problems = [
            each
            for each in store.commit_all([IterationChanges(run=run, new_run=True) for run in batch])
            if each
        ]
        assert not problems, problems[0]
        while store.index_runs(BATCH):
            pass


def _marked(run: RunDefinition, number: int) -> RunDefinition:
    """A tenth of the first ones have what is looked for."""
    named = replace(run, workflow_id=f"run-{number:08}")
    if number % (SMALL // HITS) or number >= SMALL:
        return named
    ended = run.created + 7_200_000 if run.ended else 0
    return replace(named, inputs={**run.inputs, "word": "needle"}, tags={"kind": "rare"}, ended=ended)


def compare(
    report: Report,
    store_name: str,
    url: str,
    make: Make,
    program: Callable[[PersistenceAPI], str],
    measure: Measure,
) -> None:
    """Pages with few runs, then with many: at most twice as long. `program` stores one, and gives its hash."""
    store = open_store(url)
    known = program(store)
    fill(store, make, known, range(SMALL))
    few = measure(url)
    fill(store, make, known, range(SMALL, LARGE))
    store.close()
    many = measure(url)
    detail = ", ".join(f"{name}: {few[name]:.0f} and {many[name]:.0f} ms" for name in PAGES)
    worst = max(many[name] / few[name] for name in PAGES)
    report.add(
        f"{store_name}: pages of {LARGE:,} runs against {SMALL:,}, slowest, times",
        worst,
        "at_most",
        2,
        detail,
    )
