"""`afl doctor`: what it prints, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

from support.command_line import Afl


def tighten(folder: Path) -> None:
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o700 if each.is_dir() else 0o600)


def test_the_exit_code_says_whether_anything_is_wrong(afl: Afl, doubling: str, tmp_path: Path) -> None:
    afl("submit", doubling, "-i", "n=5")
    file = tmp_path / ".afl" / "afl.db"
    tighten(file.parent)
    good = afl("doctor")
    assert (good.code, good.err) == (0, "No problems found.\n")
    assert all(line.startswith("✓ ") for line in good.out.splitlines())

    file.chmod(0o644)
    bad = afl("doctor", "--json")
    told = json.loads(bad.out)
    assert (bad.code, told["wrong"]) == (1, 1)
    (wrong,) = (each for each in told["findings"] if each["level"] == "warning")
    assert (wrong["check"], bool(wrong["remedy"])) == ("permissions", True)

    text = afl("doctor", "--quick")
    assert (text.code, text.err) == (1, "1 problem found.\n")
    assert "! permissions      other users of this machine can access" in text.out
    assert "→ `afl doctor --fix` removes their permissions." in text.out
    assert afl("doctor", "--fix").code == 0
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_password_in_the_address_of_a_store_is_not_shown(afl: Afl) -> None:
    done = afl("doctor", "--json", "--store", "postgresql://me:secret@127.0.0.1:1/afl")
    assert (done.code, "secret" in done.out + done.err) == (1, False)
    assert json.loads(done.out)["wrong"] == 1


def test_a_store_that_is_not_there_is_not_made(afl: Afl, tmp_path: Path) -> None:
    done = afl("doctor")
    assert (done.code, "there is no store" in done.out) == (1, True)
    assert not (tmp_path / ".afl").exists()
