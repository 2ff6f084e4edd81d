"""PostgreSQL, durable as in production (fsync stays on). TCP only: paths of sockets have a short limit.

PostgreSQL refuses to run as root or as a user without a name, so the server runs under an ordinary identity.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from secrets import token_hex

from afl.devstack.binaries import POSTGRES
from afl.devstack.process import Command, ProcessMark, run
from afl.devstack.server import Server
from afl.kernel.errors import InputError, ServerError
from afl.kernel.private_files import open_private

_NOBODY = 65534
_NAMESPACE = ("unshare", "--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}")
_WHERE = "elsewhere"  # names the file, in the server's own folder, that says where the data really is


@dataclass(frozen=True)
class Identity:
    """How to call a program as somebody who is not root, and a folder that somebody can write to."""

    folder: Path
    program: Path
    prefix: tuple[str, ...] = ()
    user: int | None = None

    def command(self, *argv: str) -> Command:
        return Command((*self.prefix, *argv), user=self.user)


def ordinary_identity(home: Path, program: Path) -> Identity:
    """The first way that works here to run `program` as somebody other than root."""
    root = os.geteuid() == 0
    if not root and _has_name(os.geteuid()):
        return Identity(home, program)
    if namespace_serves(home, program):
        return Identity(home, program, prefix=_NAMESPACE)
    return _nobody(home, program) if root else Identity(home, program)


def _has_name(user: int) -> bool:
    # Containers are often run as a bare number, which initdb refuses.
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def namespace_serves(home: Path, program: Path) -> bool:
    """Whether we may enter a user namespace, and from there reach what is needed.

    Containers often forbid it; and in there root no longer overrides the modes of other users' folders.
    """
    if shutil.which(_NAMESPACE[0]) is None:
        return False
    probe = ("sh", "-c", 'test -w "$1" && test -x "$2"', "sh", str(home), str(program))
    return subprocess.run([*_NAMESPACE, *probe], capture_output=True, check=False).returncode == 0


def forget_elsewhere(home: Path) -> None:
    """Delete what a server keeps outside its own folder, if it does."""
    folder = _elsewhere(home)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _nobody(home: Path, program: Path) -> Identity:
    folder = _elsewhere(home)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="afl-", dir=_open_temporary_folder()))
        os.chown(folder, _NOBODY, _NOBODY)
        (home / _WHERE).write_text(str(folder))
    reachable = program if _open_to_all(program) else _copy_out(program, folder / "programs")
    return Identity(folder, reachable, user=_NOBODY)


def _elsewhere(home: Path) -> Path | None:
    pointer = home / _WHERE
    folder = Path(pointer.read_text()) if pointer.exists() else None
    if folder is None or not folder.is_dir() or folder.is_symlink():
        return None
    # Others may write to the temporary folder: after it was swept, the name could be a trap of theirs.
    return folder if folder.stat().st_uid == _NOBODY else None


def _open_temporary_folder() -> Path:
    for folder in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        if _open_to_all(folder):
            return folder.resolve()
    raise ServerError(
        f"PostgreSQL cannot run as root, and no folder is open to user {_NOBODY}: run as another user"
    )


def _open_to_all(path: Path) -> bool:
    """Whether anybody may enter every folder on the way to `path`, and execute (or enter) it."""
    real = path.resolve()
    return all(place.stat().st_mode & 0o001 for place in (real, *real.parents))


def _copy_out(program: Path, target: Path) -> Path:
    """Copy a PostgreSQL installation; returns the program's new place. Links would keep the private path."""
    install = program.parent.parent
    copy = target / install.parent.name / install.name
    if not (copy / "bin" / program.name).exists():
        shutil.rmtree(target, ignore_errors=True)
        partial = target.with_suffix(".new")
        shutil.rmtree(partial, ignore_errors=True)
        place = partial / install.parent.name / install.name
        for part in ("bin", "lib", "share"):
            shutil.copytree(install / part, place / part)
        # Wheels keep shared libraries in a folder beside the package and find them from there.
        libraries = install.parent.with_name(f"{install.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, partial / libraries.name)
        partial.chmod(0o755)
        partial.rename(target)
    return copy / "bin" / program.name


_LONGEST_PATH = 900  # the server cuts paths off at 1024 bytes and adds names of its own
_LOCK_FILE = "postmaster.pid"
_LOCK_READY = "ready"
_POLL_SECONDS = 0.02
_METHOD = "scram-sha-256"
_PASSWORD_BYTES = 16


class Postgres(Server):
    name = "postgres"
    program = POSTGRES
    stop_signal = signal.SIGINT  # a fast shutdown: SIGTERM would wait for clients to leave

    _initdb_options = ("-U", "postgres", "-A", _METHOD, "--locale=C.UTF-8", "--encoding=UTF8")

    @cached_property
    def identity(self) -> Identity:
        return ordinary_identity(self.home, self.program.find())

    def prepare(self, previous: ProcessMark | None) -> None:
        if len(os.fsencode(self.data)) > _LONGEST_PATH:
            raise InputError(
                f"PostgreSQL takes paths of at most {_LONGEST_PATH} bytes; use a folder above {self.home}"
            )
        self.data = self.identity.folder / "data"
        if not (self.data / "PG_VERSION").exists():
            self._initialize()
        else:
            if previous is not None:
                self._forget(previous)
            if not self._password.exists():
                self._demand_password()

    def _initialize(self) -> None:
        # Made beside its place and moved there whole: a command killed half-way leaves no half of a database.
        fresh = self.identity.folder / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        initdb = str(self.identity.program.with_name("initdb"))
        password = token_hex(_PASSWORD_BYTES)
        with self._handed_over(f"{password}\n") as file:
            options = (*self._initdb_options, f"--pwfile={file}")
            if run(self.identity.command(initdb, "-D", str(fresh), *options), self.log) != 0:
                raise self.failure("could not make its data folder")
        self._keep(password)
        fresh.rename(self.data)

    def _demand_password(self) -> None:
        """Data of a version of AgentFlow that trusted every user of the machine."""
        password = token_hex(_PASSWORD_BYTES)
        single = self.identity.command(
            str(self.identity.program), "--single", "-D", str(self.data), "postgres"
        )
        with self._handed_over(f"alter role postgres password '{password}'\n") as file:
            if run(single, self.log, stdin=file) != 0:
                raise self.failure("could not be given a password")
        rules = self.data / "pg_hba.conf"
        rules.write_text(re.sub(r"(?m)\btrust$", _METHOD, rules.read_text()))
        self._keep(password)  # last: as long as it is not there, this is done again

    @property
    def _password(self) -> Path:
        return self.home / "password"

    def _keep(self, password: str) -> None:
        with os.fdopen(open_private(self._password, os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.write(password)

    @contextmanager
    def _handed_over(self, text: str) -> Iterator[Path]:
        """A file for the program that runs as somebody else, gone at the end."""
        path = self.identity.folder / "handed-over"
        path.unlink(missing_ok=True)
        with os.fdopen(open_private(path, os.O_WRONLY | os.O_EXCL), "w") as file:
            file.write(text)
            if self.identity.user is not None:
                os.fchown(file.fileno(), self.identity.user, self.identity.user)
        try:
            yield path
        finally:
            path.unlink()

    def _forget(self, previous: ProcessMark) -> None:
        """Drop the lock file of a dead server whose process id is still, or again, in use.

        The id may have passed to a stranger, or belong to a zombie that nobody buries: the server would take
        either for a rival. It sorts out every other stale lock file itself.
        """
        lines = self._lock_lines()
        if lines[:1] != [str(previous.pid)] or previous.alive or not _in_use(previous.pid):
            return
        deadline = time.monotonic() + self.stop_seconds
        while _attached(lines):
            # The dead server's children end by themselves soon; two servers on one folder would ruin it.
            if time.monotonic() > deadline:
                raise self.failure("has left children that still use its data")
            time.sleep(_POLL_SECONDS)
        (self.data / _LOCK_FILE).unlink()

    def command(self, port: int) -> Command:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        program = str(self.identity.program)
        return self.identity.command(program, "-D", str(self.data), "-p", str(port), *options)

    def ready_port(self, pid: int, port: int) -> int | None:
        lines = self._lock_lines()
        ours = lines[:1] == [str(pid)] and len(lines) > 7
        return port if ours and lines[7].strip() == _LOCK_READY else None

    def _lock_lines(self) -> list[str]:
        try:
            return (self.identity.folder / "data" / _LOCK_FILE).read_text().splitlines()
        except FileNotFoundError:
            return []

    def url(self, port: int) -> str:
        return f"postgresql://postgres:{self._password.read_text()}@127.0.0.1:{port}/postgres"

    def remove(self) -> None:
        forget_elsewhere(self.home)
        super().remove()


def _in_use(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _attached(lock_lines: list[str]) -> bool:
    """Whether a process still uses the shared memory that a lock file names (line 7: key, id)."""
    table = Path("/proc/sysvipc/shm")
    if len(lock_lines) < 7 or not table.exists():
        return False
    segment = lock_lines[6].split()[1]
    rows = (row.split() for row in table.read_text().splitlines()[1:])
    return any(row[1] == segment and int(row[6]) > 0 for row in rows)
