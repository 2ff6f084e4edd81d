"""The file of an SQLite store, for those who only look at what is there."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from afl.kernel.errors import StoreUnavailable


def require_file(store: str) -> None:
    """StoreUnavailable if a store is a file that nobody has made yet."""
    path = unquote(store.removeprefix("sqlite:///"))
    if path != store and not Path(path).exists():
        missing = StoreUnavailable(
            f"there is no store {path} yet; `afl run`, `afl submit` or `afl turns worker` creates it, "
            "or name another with --store"
        )
        missing.hint = ""  # that of its class is for a server that does not answer
        raise missing
