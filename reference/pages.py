"""Which pages there are, and what makes each of them; a test compares them with what is in docs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from afl.fleet.settings import render_fleet_markdown
from afl.kernel.settings import render_markdown as render_settings
from afl.operations import catalog
from afl.operations.reason import reasons
from reference import commands, errors, http, python_api

DOCS = Path(__file__).parents[1] / "docs"


def settings() -> str:
    """docs/settings.md: the settings of all parts, then those of the fleet."""
    return render_settings() + "\n" + render_fleet_markdown()


def why() -> str:
    """docs/why.md: its prose as it is, its table anew. The table is the end of the page."""
    page = (DOCS / "why.md").read_text()
    prose, _, _ = page.partition("| code | meaning |")
    return prose + reasons.render_markdown()


def http_api() -> str:
    """docs/http-api.md: its prose as it is, its table of requests anew. The table is the end of the page."""
    page = (DOCS / "http-api.md").read_text()
    prose, _, _ = page.partition("| request | role |")
    return prose + catalog.render_markdown()


def python() -> str:
    """docs/python.md: its prose as it is, its list of methods anew. The list is the end of the page."""
    page = (DOCS / "python.md").read_text()
    prose, _, _ = page.partition(python_api.HEADING)
    return prose + python_api.render()


PAGES: dict[str, Callable[[], str]] = {
    "http-api.md": http_api,
    "python.md": python,
    "reference-cli.md": commands.render,
    "reference-errors.md": errors.render,
    "reference-http.md": http.render,
    "settings.md": settings,
    "why.md": why,
}
