"""The function that writes commits on PostgreSQL has a number: old processes keep theirs during an upgrade."""

from __future__ import annotations

import hashlib

from afl.kernel.package_files import package_folder
from afl.runtime.postgres_store import FUNCTIONS

KNOWN = {14: "6b7b0e57c7b210e8"}


def test_a_changed_function_has_another_number() -> None:
    text = (package_folder(FUNCTIONS.package) / FUNCTIONS.folder / "schema.sql").read_text()
    found = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert {FUNCTIONS.version: found} == KNOWN, (
        "the functions have changed: raise the number in the name of the function, and `base` of FUNCTIONS"
    )
