"""The table of reasons: told in the docs as it is, and every code shown by a test."""

from __future__ import annotations

import re
from pathlib import Path

from afl.operations.reason.reasons import CODES, Outlook, Reason
from reference import pages

ROOT = Path(__file__).parents[3]


def test_the_docs_list_every_code_as_it_is() -> None:
    page = (ROOT / "docs" / "why.md").read_text()
    assert pages.why() == page
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == list(CODES)


def test_every_code_has_a_test() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_why_*.py"))
    assert [code for code in CODES if f'"{code}"' not in tests] == []


def test_the_outlook_is_that_of_the_cause() -> None:
    cause = Reason("task-unserved", "task", "1", "nobody", "act")
    middle = Reason("step-waits-for-agent", "step", "2", "waits", "see", cause)
    top = Reason("run-waits", "run", "3", "waits", "see", middle)
    assert (top.cause, top.outlook, list(top.chain)) == (cause, Outlook.STANDS, [top, middle, cause])
    over = Reason("step-run-over", "step", "2", "over", "none", cause)
    assert over.outlook is Outlook.OVER
