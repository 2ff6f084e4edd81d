"""Users in the configuration file: added, listed, removed. The file keeps the hash of a token, never the token."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec

from afl.kernel.config_file import DEFAULT_CONFIG_FILENAME, find_file, parse_file, require_file
from afl.kernel.errors import InputError, NotFoundError
from afl.kernel.private_files import make_private_folder, open_private
from afl.operations.access import Role, hash_token, new_token

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


def config_path(path: str | Path | None = None) -> Path:
    """The configuration file: the one named or found, else the one that would be found here."""
    return find_file(path) or Path(path or os.environ.get("AFL_CONFIG") or DEFAULT_CONFIG_FILENAME)


def existing_config_path(path: str | Path | None = None) -> Path:
    """As `config_path`; a name that leads to no file is a SettingError."""
    require_file(path)
    return config_path(path)


def add_user(path: Path, name: str, role: Role) -> str:
    """Add somebody, or give them a new role and token; the token, which nobody can look up later."""
    if not _NAME.fullmatch(name) or name == "token":
        raise InputError(f"{name!r} is no name for a user; expected letters, digits and . _ @ -, at most 64")
    document = _read(path)
    token = new_token()
    users: dict[str, Any] = {**document.get("users", {}), name: {"role": role, "token": hash_token(token)}}
    _write(path, {**document, "users": users})
    return token


def remove_user(path: Path, name: str) -> None:
    """Forget somebody; NotFoundError if they are not there."""
    document = _read(path)
    users = dict(document.get("users", {}))
    if users.pop(name, None) is None:
        raise NotFoundError(f"{path} has no user {name!r}; it has {', '.join(users) or 'none'}")
    _write(path, {**document, "users": users})


def list_users(path: Path) -> dict[str, str]:
    """The roles by name."""
    return {name: str(user.get("role", "")) for name, user in _read(path).get("users", {}).items()}


def _read(path: Path) -> dict[str, Any]:
    return parse_file(path) if path.exists() else {}


def _write(path: Path, document: dict[str, Any]) -> None:
    """In one piece: whoever reads it meanwhile sees the old file or the new one."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    draft = path.with_name(f"{path.name}.new")
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    try:
        make_private_folder(path.parent)
        descriptor = open_private(draft, os.O_WRONLY | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text + b"\n")
        draft.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
