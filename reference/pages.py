"""Which pages there are, and what makes each of them; a test compares them with what is in docs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from afl.fleet.settings import FLEET_SETTINGS
from afl.kernel.config_file import DEFAULT_CONFIG_FILENAME
from afl.kernel.setting_kinds import Setting
from afl.kernel.settings import SETTINGS
from afl.operations.catalog import PUBLIC
from afl.operations.reason.reasons import CODES, Outlook
from reference import commands, errors, http, python_api
from reference.tables import table

DOCS = Path(__file__).parents[1] / "docs"
_OUTLOOKS = {Outlook.MOVES: "continues", Outlook.STANDS: "stays stuck", Outlook.OVER: "is over"}


def settings() -> str:
    """docs/settings.md: the settings of all parts, then those of the fleet."""
    lines = [
        "# Settings",
        "",
        "Generated from `afl.kernel.settings`; do not edit this page by hand.",
        "",
        "A value comes from the command line or the caller, otherwise from the environment variable, then from",
        f"the configuration file (`{DEFAULT_CONFIG_FILENAME}`, a JSON object; `mongodb.url` is the key `url`",
        "of the object `mongodb`), and finally from the default. An invalid value stops the program with a message",
        "that says what was expected.",
        "",
        "Any of the `mongodb` settings selects the MongoDB store: the others have their defaults. A store",
        "(`AFL_STORE`, or `store` in the file) that names something else stops the program; `--store` wins.",
        "",
        *table(
            ("variable", "in the file", "default", "value", "meaning"),
            [(f"`{row.variable}`", f"`{row.key}`", *_about(row)) for row in SETTINGS],
        ),
        "",
        "## Fleet",
        "",
        "Principal, agents and clients of the fleet read these from the environment, else from a file `.env` in",
        "the working directory. Made from the table in `afl.fleet.settings`.",
        "",
        *table(
            ("variable", "default", "value", "meaning"),
            [(f"`{row.variable}`", *_about(row)) for row in FLEET_SETTINGS],
        ),
    ]
    return "\n".join(lines) + "\n"


def _about(row: Setting) -> tuple[str, str, str]:
    default = f"`{row.default}`" if row.default not in ("", ()) else "(empty)"
    return default, row.kind.expects, row.doc


def why() -> str:
    """docs/why.md: its prose as it is, its table anew. The table is the end of the page."""
    head = ("code", "meaning", "without action it", "what to do")
    rows = [(f"`{name}`", code.meaning, _OUTLOOKS[code.outlook], code.action) for name, code in CODES.items()]
    return _with_table("why.md", head, rows)


def http_api() -> str:
    """docs/http-api.md: its prose as it is, its table of requests anew. The table is the end of the page."""
    head = ("request", "role", "what it does", "operation")
    rows = [(f"`{each.method} {each.path}`", each.role, each.summary, f"`{each.name}`") for each in PUBLIC]
    return _with_table("http-api.md", head, rows)


def _with_table(name: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    prose, _, _ = (DOCS / name).read_text().partition(f"| {' | '.join(head[:2])} |")
    return prose + "\n".join(table(head, rows)) + "\n"


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
