"""New files and folders that only their owner can read, whatever the umask; what is there already keeps its mode."""

from __future__ import annotations

import os
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def make_private_folder(path: str | os.PathLike[str], mode: int = FOLDER_MODE) -> None:
    """Make the folder, and those above it that are not there."""
    folder = Path(path)
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_private_folder(folder.parent, mode)
    try:
        os.mkdir(folder, mode)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        os.chmod(folder, mode)  # the umask may have taken what its owner needs


def make_private_file(path: str | os.PathLike[str], mode: int = FILE_MODE) -> None:
    """Make an empty file, unless there is one, which is not even opened."""
    try:
        os.close(_create(path, os.O_WRONLY, mode))
    except FileExistsError:
        return


def open_private(path: str | os.PathLike[str], flags: int, mode: int = FILE_MODE) -> int:
    """A descriptor of the file, which is made if need be."""
    try:
        return _create(path, flags, mode)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, mode)


def folder_mode(file_mode: int) -> int:
    """The mode of a folder for those who may read and write files of a mode."""
    return file_mode | (file_mode & 0o444) >> 2


def _create(path: str | os.PathLike[str], flags: int, mode: int) -> int:
    descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    os.fchmod(descriptor, mode)
    return descriptor
