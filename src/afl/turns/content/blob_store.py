"""Where the bytes of large files are: a folder, memory, or any address that fsspec knows. Named by their SHA-256."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote
from uuid import uuid4

from afl.kernel.errors import InputError, MissingExtraError, pip_install
from afl.kernel.setting_kinds import mask_url
from afl.turns.cardbox.parts import is_digest

_UNFINISHED_SECONDS = 86_400.0


class BlobStore(Protocol):
    """Called on any thread. What it raises is an OSError."""

    @property
    def address(self) -> str:
        """Where it is, for people."""

    def write(self, digest: str, data: bytes) -> None:
        """Store bytes unless they are there; nobody ever reads a part of them."""

    def read(self, digest: str) -> bytes:
        """The bytes; FileNotFoundError if there are none."""

    def delete(self, digest: str) -> None:
        """Delete the bytes, if they are there."""

    def sweep(self) -> None:
        """Remove what writers that died have left behind."""


def open_blobs(address: str) -> BlobStore:
    """The blob store at an address: a path, `file://PATH`, `memory://`, or `s3://BUCKET/PATH` and what fsspec knows."""
    if "://" not in address:
        return FolderBlobs(Path(address))
    if address.startswith("file://"):
        return FolderBlobs(Path(unquote(address.removeprefix("file://"))))
    return FsspecBlobs(address)


class FolderBlobs:
    """A folder of this machine, or one that all machines share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._unfinished = self._folder / "tmp"

    @property
    def address(self) -> str:
        return str(self._folder)

    def write(self, digest: str, data: bytes) -> None:
        path = self._path(digest)
        with suppress(FileNotFoundError):
            if path.stat().st_size == len(data):
                return
        self._unfinished.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(exist_ok=True)
        unfinished = self._unfinished / f"{digest}.{uuid4().hex}"
        try:
            with unfinished.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
            _sync_folder(path.parent)
        finally:
            unfinished.unlink(missing_ok=True)

    def read(self, digest: str) -> bytes:
        return self._path(digest).read_bytes()

    def delete(self, digest: str) -> None:
        self._path(digest).unlink(missing_ok=True)

    def sweep(self) -> None:
        oldest = time.time() - _UNFINISHED_SECONDS
        for path in self._unfinished.glob("*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _path(self, digest: str) -> Path:
        return self._folder / checked_digest(digest)[:2] / digest


class MemoryBlobs:
    """The memory of this process, for stores that are there as well."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    @property
    def address(self) -> str:
        return "the memory of this process"

    def write(self, digest: str, data: bytes) -> None:
        self._blobs[checked_digest(digest)] = data

    def read(self, digest: str) -> bytes:
        try:
            return self._blobs[digest]
        except KeyError:
            raise FileNotFoundError(digest) from None

    def delete(self, digest: str) -> None:
        self._blobs.pop(digest, None)

    def sweep(self) -> None:
        """Nothing is ever left behind."""


class FsspecBlobs:
    """An address of fsspec, such as a bucket. Object stores show an object once all of it is there."""

    def __init__(self, address: str) -> None:
        try:
            core = import_module("fsspec.core")  # needs an extra, and has no types
        except ImportError as error:
            raise MissingExtraError(
                f"blobs at {mask_url(address)} need fsspec: {pip_install('blobs')}"
            ) from error
        try:
            found, root = core.url_to_fs(address)
        except (ImportError, ValueError) as error:
            raise InputError(f"blobs cannot be kept at {mask_url(address)}: {error}") from error
        self._files: Any = found
        self._root = str(root).rstrip("/")
        self._address = mask_url(address)

    @property
    def address(self) -> str:
        return self._address

    def write(self, digest: str, data: bytes) -> None:
        path = self._path(digest)
        with suppress(FileNotFoundError):
            if self._files.info(path).get("size") == len(data):
                return
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.pipe_file(path, data)

    def read(self, digest: str) -> bytes:
        data: bytes = self._files.cat_file(self._path(digest))
        return data

    def delete(self, digest: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(digest))

    def sweep(self) -> None:
        """What is uploaded in parts, and not completed, the rules of the bucket remove."""

    def _path(self, digest: str) -> str:
        return f"{self._root}/{checked_digest(digest)[:2]}/{digest}"


def checked_digest(digest: str) -> str:
    """InputError for what is no SHA-256: it becomes part of a path."""
    if not is_digest(digest):
        raise InputError(f"{digest[:80]!r} is no SHA-256 in hexadecimal")
    return digest


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; not every system can open a folder for that."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
