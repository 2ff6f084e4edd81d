"""The configuration file: where it is looked for, and the JSON object it must hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from afl.kernel.errors import SettingError

DEFAULT_CONFIG_FILENAME = "afl.config.json"


def parse_file(path: Path) -> dict[str, Any]:
    """The JSON object in a configuration file."""
    try:
        document = msgspec.json.decode(path.read_bytes())
    except (ValueError, RecursionError) as error:  # also what is not UTF-8
        raise SettingError(f"{path} is not JSON: {error}") from error
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from error
    if not isinstance(document, dict):
        raise SettingError(f"{path} holds a JSON {type(document).__name__}; expected an object")
    return document


def find_file(path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """The configuration file: named by `path`, else by AFL_CONFIG, else the first in the usual places.

    A name that leads to no file ends the search: None. A folder that this user may not enter has none.
    """
    named = path or (os.environ if environ is None else environ).get("AFL_CONFIG")
    folders = (Path(), *_home_folders(), Path("/etc/afl"))
    candidates = [Path(named)] if named else [folder / DEFAULT_CONFIG_FILENAME for folder in folders]
    return next((file for file in candidates if os.path.isfile(file)), None)


def _home_folders() -> list[Path]:
    try:
        return [Path.home() / ".afl"]
    except RuntimeError:  # no HOME, and a user id without a name, as in some containers
        return []


def require_file(path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """As `find_file`; a name that leads to no file is an error."""
    file = find_file(path, environ)
    named = path or (os.environ if environ is None else environ).get("AFL_CONFIG")
    if file is None and named:
        source = "AFL_CONFIG" if not path else "the configuration file"
        raise SettingError(f"{source} is {str(named)!r}; expected the path of a file, and there is none")
    return file
