"""Writes every page that is made from the code, and says which of them changed."""

from __future__ import annotations

from reference.pages import DOCS, PAGES


def main() -> None:
    for name, render in PAGES.items():
        page = DOCS / name
        before = page.read_text() if page.exists() else ""
        after = render()
        if after != before:
            page.write_text(after)
            print(f"docs/{name}")


if __name__ == "__main__":
    main()
