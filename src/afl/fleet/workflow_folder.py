"""The folder of workflow files: a file is read again when it changed. One bad file never hides the others."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from afl.fleet.errors import Problem, WorkflowFileError
from afl.fleet.workflow import Workflow
from afl.fleet.workflow_file import read_workflow
from afl.kernel.bounds import LONGEST_NAME, cut, is_name

_log = logging.getLogger(__name__)
SUFFIXES = (".yml", ".yaml")
_LARGEST = 1024 * 1024
# A file written twice within one tick of the file system's clock has the same stamp both times, so a file this young
# is read again at the next refresh.
_UNSETTLED_NS = 100_000_000

Stamp = tuple[int, ...]


def workflow_id(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> str:
    """`etl/daily.yml` -> `etl.daily`."""
    relative = Path(path).relative_to(folder)
    return ".".join((*relative.parts[:-1], relative.stem))


@dataclass(frozen=True, slots=True)
class _Entry:
    stamp: Stamp
    workflow: Workflow | None
    problems: tuple[Problem, ...]


class WorkflowFolder:
    """`workflows` by id and `problems`, as of the last `refresh`, which costs one `stat` per unchanged file.

    Files that end in .yml or .yaml count, in subfolders too; hidden files and folders are ignored. A workflow object is
    immutable: changing or deleting its file does not affect runs.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._entries: dict[str, _Entry] = {}
        self._workflows: Mapping[str, Workflow] = MappingProxyType({})
        self._problems: tuple[Problem, ...] = ()

    @property
    def workflows(self) -> Mapping[str, Workflow]:
        return self._workflows

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._problems

    def refresh(self) -> bool:
        """Read changed files; whether workflows or problems changed."""
        found: list[Problem] = []
        entries = {
            path: self._entry(path, status) for path, status in sorted(_files(str(self.path), set(), found))
        }
        if self._entries == entries and not found and not self._folder_problems():
            return False
        before = (self._workflows, self._problems)
        self._entries = entries
        self._index(found)
        return before != (self._workflows, self._problems)

    def is_current(self, name: str) -> bool:
        """Whether the workflow of this id is known, and its file is as it was read."""
        workflow = self._workflows.get(name)
        entry = None if workflow is None else self._entries.get(workflow.path)
        if workflow is None or entry is None:
            return False
        try:
            return entry.stamp == _stamp(os.stat(workflow.path))
        except OSError:  # it was deleted
            return False

    def _folder_problems(self) -> bool:
        return any(problem.path not in self._entries for problem in self._problems)

    def _entry(self, path: str, status: os.stat_result) -> _Entry:
        stamp = _stamp(status)
        known = self._entries.get(path)
        if known is not None and known.stamp == stamp:
            return known
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _UNSETTLED_NS:
            stamp = ()  # equal to no stamp
        try:
            workflow = self._read(path, status.st_size)
        except WorkflowFileError as error:
            return _Entry(stamp, None, error.problems)
        except Exception as error:  # an internal error must not hide the other files
            _log.exception("%s cannot be read", path)
            return _Entry(stamp, None, (Problem(path, 0, "", f"cannot be read: {cut(repr(error))}"),))
        return _Entry(stamp, workflow, ())

    def _read(self, path: str, size: int) -> Workflow:
        name = workflow_id(self.path, path)
        if size > _LARGEST:
            raise _error(path, f"is {size:,} bytes; a workflow file has at most {_LARGEST:,}")
        if not is_name(name):
            what = (
                "control characters" if len(name) <= LONGEST_NAME else f"more than {LONGEST_NAME} characters"
            )
            raise _error(path, f"has {what} in its name, so it can have no id")
        try:
            text = Path(path).read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _error(path, f"is not UTF-8 text: {error.reason} at byte {error.start}") from error
        except OSError as error:
            raise _error(path, f"cannot be read: {error.strerror}") from error
        return read_workflow(name, path, text)

    def _index(self, found: list[Problem]) -> None:
        workflows: dict[str, Workflow] = {}
        problems = list(found)
        for path, entry in self._entries.items():
            problems.extend(entry.problems)
            workflow = entry.workflow
            if workflow is not None and workflow.id in workflows:
                other = workflows[workflow.id].path
                problems.append(
                    Problem(path, 0, "", f"has the id {workflow.id!r}, which {other} has already")
                )
            elif workflow is not None:
                workflows[workflow.id] = workflow
        self._workflows = MappingProxyType(dict(sorted(workflows.items())))
        self._problems = tuple(problems)


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)


def _files(
    folder: str, seen: set[tuple[int, int]], problems: list[Problem]
) -> Iterator[tuple[str, os.stat_result]]:
    """Every workflow file below a folder; links are followed, each folder once."""
    try:
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as listing:
            entries = [entry for entry in listing if not entry.name.startswith(".")]
    except OSError as error:
        problems.append(Problem(folder, 0, "", f"cannot be read: {error.strerror}"))
        return
    for entry in entries:
        try:
            if entry.is_dir():
                yield from _files(entry.path, seen, problems)
            elif entry.name.endswith(SUFFIXES) and entry.is_file():
                yield entry.path, entry.stat()
        except OSError as error:  # it was deleted, or is a dangling link
            problems.append(Problem(entry.path, 0, "", f"cannot be read: {error.strerror}"))


def _error(path: str, message: str) -> WorkflowFileError:
    return WorkflowFileError([Problem(path, 0, "", message)])
