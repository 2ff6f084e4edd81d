"""Writes every page that is made from the code, and says which of them changed."""

from __future__ import annotations

import subprocess
import sys

from reference.grammar_tables import TABLES
from reference.grammar_tables import generated as grammar_tables
from reference.pages import DOCS, PAGES
from reference.sync_client import generated


def main() -> None:
    write_sync_client()
    TABLES.write_text(grammar_tables())
    for name, render in PAGES.items():
        page = DOCS / name
        before = page.read_text() if page.exists() else ""
        after = render()
        if after != before:
            page.write_text(after)
            print(f"docs/{name}")


def write_sync_client() -> None:
    """First, since pages are made from it."""
    for module, text in generated().items():
        before = module.read_text() if module.exists() else ""
        module.write_text(text)
        subprocess.run([sys.executable, "-m", "ruff", "format", "-q", module], check=True)
        subprocess.run(
            [sys.executable, "-m", "ruff", "check", "-q", "--fix", "--select", "I", module], check=True
        )
        if module.read_text() != before:
            print(module.name)


if __name__ == "__main__":
    main()
