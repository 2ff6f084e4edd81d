"""As whom PostgreSQL runs, which refuses to be root, or a user that the system has no name for.

An ordinary user runs it as is. Others enter a user namespace where they are nobody: files stay their own, so
any folder will do. Where namespaces are refused root becomes nobody for good, who can reach neither private
folders nor a private virtual environment: data, and if need be programs, then live in the system's temporary
folder.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from afl.devstack.process import Command
from afl.kernel.errors import ServerError

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
