"""The folder of workflow files and its changes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from afl.fleet.principal.catalog import Catalog
from afl.fleet.workflow_folder import WorkflowFolder, workflow_id

GOOD = "name: {name}\ntasks: {{a: {{name: A, config: !Subprocess {{cmd: 'true'}}}}}}\n"


def write(path: Path, name: str = "W") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(GOOD.format(name=name))
    return path


def age(path: Path) -> None:
    """The file was written long ago: two writes within one tick of the clock look alike."""
    os.utime(path, ns=(10**18, 10**18))


def test_ids_are_the_way_to_the_file() -> None:
    assert workflow_id("workflows", "workflows/etl/daily.yml") == "etl.daily"
    assert workflow_id("workflows", "workflows/a.b.yaml") == "a.b"
    assert workflow_id("workflows", "workflows/my_workflows.yml") == "my_workflows"


def test_files_of_all_subfolders_and_nothing_else(tmp_path: Path) -> None:
    for name in ("top.yml", "etl/daily.yaml", "etl/deep/er.yml", ".hidden/x.yml", "etl/.x.yml"):
        write(tmp_path / name)
    for name in ("README", "notes.txt", ".gitignore", "etl/Makefile"):
        (tmp_path / name).write_text("not a workflow: [")
    folder = WorkflowFolder(tmp_path)
    assert folder.refresh()
    assert list(folder.workflows) == ["etl.daily", "etl.deep.er", "top"]
    assert folder.problems == ()


def test_a_bad_file_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path / "good.yml")
    (tmp_path / "bad.yml").write_text("name: [\n")
    (tmp_path / "latin.yml").write_bytes(b"name: \xe9t\xe9\n")
    (tmp_path / "huge.yml").write_text("#" * (1024 * 1024 + 1))
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling.yml")
    folder = WorkflowFolder(tmp_path)
    folder.refresh()
    assert list(folder.workflows) == ["good"]
    said = {Path(problem.path).name: problem.message for problem in folder.problems}
    assert said["bad.yml"].startswith("is not YAML")
    assert said["latin.yml"].startswith("is not UTF-8 text")
    assert said["huge.yml"].startswith("is 1,048,577 bytes")
    assert set(said) <= {"bad.yml", "latin.yml", "huge.yml", "dangling.yml"}


def test_two_files_with_one_id(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "first")
    write(tmp_path / "a.yml", "second")
    folder = WorkflowFolder(tmp_path)
    folder.refresh()
    assert folder.workflows["a"].name == "first"
    [problem] = folder.problems
    assert problem.path.endswith("a.yml") and "has the id 'a', which" in problem.message


def test_a_folder_that_is_not_there_and_then_is(tmp_path: Path) -> None:
    folder = WorkflowFolder(tmp_path / "later")
    assert folder.refresh()
    assert [problem.message for problem in folder.problems] == ["cannot be read: No such file or directory"]
    assert not folder.refresh()
    write(tmp_path / "later" / "a.yml")
    assert folder.refresh()
    assert list(folder.workflows) == ["a"] and folder.problems == ()


def test_links_that_go_round_end(tmp_path: Path) -> None:
    write(tmp_path / "sub" / "a.yml")
    os.symlink(tmp_path, tmp_path / "sub" / "round")
    folder = WorkflowFolder(tmp_path)
    folder.refresh()
    assert list(folder.workflows) == ["sub.a"]


def test_changes_are_seen_and_what_is_held_stays(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yml", "old")
    age(path)
    folder = WorkflowFolder(tmp_path)
    assert folder.refresh()
    held = folder.workflows["a"]
    assert not folder.refresh()
    write(path, "new")
    assert folder.refresh()
    assert (folder.workflows["a"].name, held.name) == ("new", "old")
    path.write_text("name: [")
    assert folder.refresh()
    assert "a" not in folder.workflows and folder.problems
    path.unlink()
    assert folder.refresh()
    assert folder.problems == ()


def test_what_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    for number in range(5):
        age(write(tmp_path / f"w{number}.yml"))
    folder = WorkflowFolder(tmp_path)
    folder.refresh()
    before = dict(folder.workflows)
    assert not folder.refresh()
    assert all(folder.workflows[name] is flow for name, flow in before.items())


def test_a_file_written_twice_in_one_tick_is_seen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yml", "one")
    folder = WorkflowFolder(tmp_path)
    folder.refresh()
    status = path.stat()
    write(path, "two")  # as long as before, and the clock is set back to where it was
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert folder.refresh()
    assert folder.workflows["a"].name == "two"


def test_what_is_started_is_the_file_as_it_is_now(tmp_path: Path) -> None:
    async def find(catalog: Catalog) -> str | None:
        found = await catalog.find("a")
        return None if found is None else found.name

    async def body() -> None:
        catalog = Catalog(tmp_path)
        path = write(tmp_path / "a.yml", "one")
        age(path)
        assert await find(catalog) == "one"
        write(path, "two")
        assert await find(catalog) == "two"
        path.write_text("name: [")
        assert await find(catalog) is None
        write(path, "three")
        assert await find(catalog) == "three"
        path.unlink()
        assert await find(catalog) is None

    asyncio.run(body())
