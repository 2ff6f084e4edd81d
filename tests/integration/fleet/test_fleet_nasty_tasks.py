"""Tasks that behave badly: all of them end, and nothing of them is left."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually
from support.fleet_processes import is_gone
from support.fleet_records import command, run, shell, workflow

from afl.fleet import reaper
from afl.fleet.executors import process
from afl.fleet.executors.command import command_of
from afl.fleet.messages import Level, LogRecord, Record, Status
from afl.fleet.task_attempt import TaskResources
from afl.fleet.task_manager import TaskManager
from afl.fleet.workflow import Task, UvPython

QUICK = TaskResources(grace=0.2)


def python(program: str, **rest: Any) -> Task:
    return command(sys.executable, "-I", "-S", "-c", program, **rest)


def test_ten_megabytes_of_errors_and_no_output() -> None:
    report = run(workflow(t=python("import os\nfor _ in range(10_000): os.write(2, b'e' * 999 + b'\\n')")))
    lines = report.lines(Level.ERROR)
    assert len(lines) == 10_000 and set(lines) == {"e" * 999}
    assert report.lines(Level.INFO) == []
    assert report.last("t").status is Status.COMPLETED


def test_both_streams_full_at_once() -> None:
    program = "import os\nfor i in range(3000): os.write(1, b'o%d\\n' % i); os.write(2, b'e%d\\n' % i)"
    report = run(workflow(t=python(program)))
    assert report.lines(Level.INFO) == [f"o{number}" for number in range(3000)]
    assert report.lines(Level.ERROR) == [f"e{number}" for number in range(3000)]


def test_binary_output() -> None:
    report = run(workflow(t=python("import os; os.write(1, bytes(range(256)) * 400)")))
    assert report.last("t").status is Status.COMPLETED
    assert "".join(report.lines()).count("�") == 128 * 400


def test_a_very_long_line_without_an_end() -> None:
    report = run(workflow(t=python("import os; os.write(1, b'x' * 1_000_000)")))
    assert report.lines() == ["x" * 1_000_000]


def test_very_long_lines_of_both_streams_are_told_apart() -> None:
    program = "import os\nfor n in range(40): os.write(1, b'o' * 9_999); os.write(2, b'e' * 9_999)"
    report = run(workflow(t=python(program)))
    assert report.lines(Level.INFO) == ["o" * 399_960]
    assert report.lines(Level.ERROR) == ["e" * 399_960]


def test_the_last_line_needs_no_newline() -> None:
    assert run(workflow(t=command("printf", "one\ntwo"))).lines() == ["one", "two"]


def test_a_program_that_is_not_there_and_a_folder_that_is_not() -> None:
    report = run(
        workflow(a=command("no-such-program"), b=command("true", working_directory="/no/such/folder"))
    )
    assert report.last("a").status is Status.FAILED and report.last("a").exit_code is None
    reason = "Failed to start child process: No such file or directory"
    assert report.last("a").error == f"{reason}: 'no-such-program'"
    assert report.last("b").error == f"{reason}: '/no/such/folder'"


def test_exit_codes_and_signals_are_kept() -> None:
    report = run(workflow(code=shell("exit 7"), signal=shell("kill -9 $$")))
    assert (report.last("code").exit_code, report.last("code").error) == (7, "exit code 7")
    assert (report.last("signal").exit_code, report.last("signal").error) == (-9, "ended by SIGKILL")


def test_a_task_has_no_input() -> None:
    assert run(workflow(t=command("cat"))).last("t").status is Status.COMPLETED


def stop_at_first_line(record: Record, manager: TaskManager) -> None:
    if isinstance(record, LogRecord):
        manager.stop("run", Status.CANCELED, "enough")


def test_a_timeout_ends_a_task() -> None:
    report = run(workflow(t=command("sleep", "600", timeout=0.1), after=command("true", depends=("t",))))
    assert report.last("t").status is Status.FAILED
    assert (report.last("t").error, report.last("t").exit_code) == ("timed out after 0.1 s", -15)
    assert report.last("after").status is Status.SKIPPED


def test_a_task_that_ignores_sigterm_is_killed_with_its_children() -> None:
    program = 'trap "" TERM; sleep 600 & echo $!; while :; do sleep 600; done'
    report = run(workflow(t=shell(program)), resources=QUICK, receive=stop_at_first_line)
    assert (report.last("t").status, report.last("t").exit_code) == (Status.CANCELED, -9)
    [child] = report.lines()
    assert eventually(lambda: is_gone(int(child)))


def test_a_polite_task_is_given_time_to_say_goodbye() -> None:
    program = 'trap "echo goodbye; exit 3" TERM; echo ready; sleep 600 & wait'
    report = run(workflow(t=shell(program)), resources=TaskResources(grace=60), receive=stop_at_first_line)
    assert report.lines() == ["ready", "goodbye"]
    assert report.last("t").exit_code == 3


def test_children_have_time_to_say_goodbye_when_their_shell_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LINGER_SECONDS", 0.01)
    polite = 'trap "sleep 0.5; echo goodbye; exit" TERM; echo ready; sleep 600 & wait'
    program = f"sh -c '{polite}'; echo never"
    report = run(workflow(t=shell(program)), resources=TaskResources(grace=60), receive=stop_at_first_line)
    assert report.lines() == ["ready", "goodbye"]
    assert report.last("t").exit_code == -15


def test_a_daemon_that_holds_the_pipes_does_not_hold_the_task() -> None:
    report = run(workflow(t=shell("sleep 600 & echo $!; exit 0")))
    assert report.last("t").status is Status.COMPLETED
    [daemon] = report.lines()
    assert eventually(lambda: is_gone(int(daemon)))


def test_a_task_that_ended_in_time_did_not_time_out() -> None:
    report = run(workflow(t=shell("sleep 600 & exit 0", timeout=0.5)))
    assert (report.last("t").status, report.last("t").error) == (Status.COMPLETED, "")


def test_a_daemon_that_left_its_group_is_found_when_the_task_is_ended() -> None:
    program = "setsid sh -c 'echo $$; exec sleep 600' & sleep 600"
    report = run(workflow(t=shell(program)), resources=QUICK, receive=stop_at_first_line)
    [daemon] = report.lines()
    assert report.last("t").status is Status.CANCELED
    assert eventually(lambda: is_gone(int(daemon)))


def test_output_that_comes_after_the_exit_is_still_heard() -> None:
    report = run(workflow(t=shell("(sleep 0.2; echo late) & echo early")))
    assert report.lines() == ["early", "late"]


def test_where_the_system_has_no_pidfd_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(pid: int) -> int:
        raise OSError(errno.ENOSYS, "no pidfd")

    monkeypatch.setattr(process, "_pidfd_open", missing)
    report = run(workflow(a=shell("echo hi; exit 4"), b=command("sleep", "600", timeout=0.1)))
    assert (report.last("a").exit_code, report.lines()) == (4, ["hi"])
    assert report.last("b").error == "timed out after 0.1 s"


def test_where_the_system_does_not_show_processes_the_group_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "_PROC", "/no/such/folder")
    program = 'trap "" TERM; sleep 600 & echo $!; while :; do sleep 600; done'
    report = run(workflow(t=shell(program)), resources=QUICK, receive=stop_at_first_line)
    assert (report.last("t").status, report.last("t").exit_code) == (Status.CANCELED, -9)
    [child] = report.lines()
    assert eventually(lambda: is_gone(int(child)))


def test_uv_is_called_as_the_reference_calls_it() -> None:
    task = Task("T", UvPython("x.py", packages=("pandas", "rich<14"), working_directory="/srv"))
    made = command_of(task)
    assert made.argv == ("uv", "run", "--with", "pandas", "--with", "rich<14", "x.py")
    assert made.folder == "/srv"
    project = UvPython("x.py", is_uv_project=True, packages=("pandas",), uv_path="/opt/uv")
    assert command_of(Task("T", project)).argv == ("/opt/uv", "run", "x.py")


def test_a_python_script_runs_under_uv(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("import os\nprint('hello from', os.getcwd())\n")
    uv = os.path.join(os.path.dirname(sys.executable), "uv")
    config = UvPython("hello.py", uv_path=uv, working_directory=str(tmp_path))
    env = {"UV_PYTHON": sys.executable, "UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache")}
    report = run(workflow(t=Task("T", config, env=env)))
    assert report.lines(Level.INFO) == [f"hello from {tmp_path}"]
    assert report.last("t").exit_code == 0
