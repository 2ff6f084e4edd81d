"""A `.env` file: one `NAME=value` per line. Only names that we know are looked at, so it may hold anything else."""

from __future__ import annotations

import re
from pathlib import Path

from afl.kernel.errors import SettingError

_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*)")
_QUOTED = re.compile(r"""(["'])(?P<text>.*?)\1\s*(?:#.*)?""")


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a file; none when there is no file."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} cannot be read: {error}") from error
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match:
            found[match["name"]] = _value(match["value"])
    return found


def missing_dotenv(path: Path = Path(".env")) -> str:
    """That there is no such file, in words that end a sentence; empty when there is one."""
    return "" if path.exists() else f"there is no {path.name} in {path.absolute().parent}"


def _value(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return quoted["text"]
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
