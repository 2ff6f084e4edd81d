"""SQLite's own checks of a file, without changing it."""

from __future__ import annotations

import sqlite3

from afl.kernel.database.sqlite_read_only import read_only_address

_MOST = 20


def integrity_problems(path: str, *, quick: bool = False) -> list[str]:
    """What is wrong with the pages, the indexes and the references of a file; `quick` leaves out the indexes."""
    try:
        connection = sqlite3.connect(read_only_address(path), uri=True)
    except sqlite3.Error as error:
        return [str(error)]
    try:
        check = "quick_check" if quick else "integrity_check"
        told = [row[0] for row in connection.execute(f"PRAGMA {check}({_MOST})")]
        found = [] if told == ["ok"] else told
        broken = connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST)
        return found + [f"a row of {row[0]} refers to one of {row[2]} that is not there" for row in broken]
    except sqlite3.Error as error:
        return [str(error)]
    finally:
        connection.close()
