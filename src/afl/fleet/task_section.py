"""One task of a workflow file: its keys, its tagged config, and the texts that may contain a parameter."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from afl.fleet.errors import suggestion
from afl.fleet.workflow import CONFIGS, PLACEHOLDER, Ray, Retries, Subprocess, Task, TaskConfig, UvPython
from afl.fleet.yaml_section import Section, is_scalar
from afl.kernel.bounds import LARGEST_COUNT

_TASK_KEYS = (
    "name",
    "description",
    "depends",
    "config",
    "env",
    "working_directory",
    "timeout",
    "retries",
    "allow_failure",
    "when",
)
_CONFIG_KEYS = {
    Subprocess: ("cmd", "args"),
    UvPython: ("script_path", "packages", "is_uv_project", "working_directory", "uv_path"),
    Ray: ("cmd", "function", "args", "address", "num_cpus", "num_gpus", "resources", "runtime_env"),
}
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)")
_LONGEST = 1e9  # seconds
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "csh", "tcsh"})
_OPTION_WITH_VALUE = re.compile(r"[-+][A-Za-z]*[oO]")  # as in `bash -o pipefail -c ...`


def read_task(section: Section, params: Iterable[str]) -> Task:
    """The task; problems are added to the report of the section, and their values are empty."""
    section.allow(_TASK_KEYS, "a task")
    config = _config(section)
    working_directory = section.value("working_directory", str)
    task = Task(
        name=section.label("name"),
        config=config or Subprocess(""),
        description=section.value("description", str),
        depends=tuple(dict.fromkeys(section.texts("depends"))),
        env=_env(section),
        working_directory=working_directory,
        timeout=duration(section, "timeout", least=0.001),
        retries=_retries(section),
        allow_failure=bool(section.value("allow_failure", bool)),
        always=_always(section),
    )
    _check_placeholders(section, task, list(params))
    return task


def duration(section: Section, name: str, *, least: float = 0.0) -> float | None:
    """Seconds: a number, or a text such as `500ms`, `30s`, `5m`, `2h`, `1d`."""
    value = section.value(name, int, float, str)
    if value is None:
        return None
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        value = float(match[1]) * _UNITS[match[2]] if match else None
    if value is None:
        section.problem(
            name, "is not a duration; expected seconds, or a text such as '500ms', '30s', '5m', '2h'"
        )
        return None
    if not least <= value < _LONGEST:
        section.problem(
            name, f"is {value:g} seconds; expected at least {least:g} and less than {_LONGEST:,.0f}"
        )
        return None
    return float(value)


def whole(section: Section, name: str, least: int) -> int | None:
    """A whole number of at least `least`."""
    value: int | None = section.value(name, int)
    if value is not None and not least <= value <= LARGEST_COUNT:
        section.problem(
            name, f"is {value}; expected a whole number of at least {least}, at most {LARGEST_COUNT}"
        )
        return None
    return value


def _config(section: Section) -> TaskConfig | None:
    body = section.section("config", "!Subprocess, !UvPython or !Ray with its keys", required=True)
    if body is None:
        return None
    tag = body.tag.removeprefix("!")
    if tag not in CONFIGS or not body.tag.startswith("!"):
        what = f"has the tag {body.tag!r}" if body.tag.startswith("!") else "has no tag"
        section.problem("config", f"{what}; expected !Subprocess, !UvPython or !Ray{_near_tag(body.tag)}")
        return None
    kind = CONFIGS[tag]
    body.allow(_CONFIG_KEYS[kind], f"!{tag}")
    if kind is Subprocess:
        return Subprocess(body.text("cmd"), _args(body))
    return _uv_python(body) if kind is UvPython else _ray(body)


def _near_tag(tag: str) -> str:
    near = suggestion(tag, [f"!{name}" for name in CONFIGS])
    return near if "did you mean" in near else ""


def _uv_python(body: Section) -> UvPython:
    script = body.text("script_path")
    packages = body.texts("packages")
    for index, package in enumerate(packages):
        if package.startswith("-"):
            body.problem(f"packages[{index}]", f"is {package!r}; expected a package, and this is an option")
    if script.startswith("-"):
        body.problem(
            "script_path", f"is {script!r}; expected a file, and this is an option (write './{script}')"
        )
    return UvPython(
        script,
        is_uv_project=body.value("is_uv_project", bool),
        packages=packages if "packages" in body else None,
        uv_path=body.value("uv_path", str),
        working_directory=body.value("working_directory", str),
    )


def _ray(body: Section) -> Ray | None:
    cmd, function = body.value("cmd", str), body.value("function", str)
    if (cmd is None) == (function is None):
        body.problem("", "expected either cmd (a program) or function (module:name)")
        return None
    if function is not None and not _FUNCTION.fullmatch(function):
        body.problem("function", f"is {function!r}; expected module:name")
    numbers = {name: body.value(name, int, float) for name in ("num_cpus", "num_gpus")}
    resources = {}
    if (inner := body.section("resources", "a mapping of names to numbers")) is not None:
        resources = {name: inner.value(name, int, float, required=True) or 0.0 for name in inner}
        numbers |= {f"resources.{name}": value for name, value in resources.items()}
    for name, value in numbers.items():
        if value is not None and value < 0:
            body.problem(name, f"is {value}; expected a number of at least 0")
    return Ray(
        cmd=cmd,
        function=function,
        args=_args(body),
        address=body.value("address", str),
        num_cpus=numbers["num_cpus"],
        num_gpus=numbers["num_gpus"],
        resources=resources,
        runtime_env=body.data("runtime_env"),
    )


def _args(body: Section) -> tuple[str, ...]:
    args = body.texts("args")
    for index, arg in enumerate(args):
        if "\0" in arg:
            body.problem(f"args[{index}]", "holds a NUL, which no program can be given")
    return args


def _env(section: Section) -> dict[str, str]:
    inner = section.section("env", "a mapping of names to texts")
    if inner is None:
        return {}
    env: dict[str, str] = {}
    for name in inner:
        value = inner.value(name, str, required=True)
        if not name or "=" in name or "\0" in name or "\0" in (value or ""):
            inner.problem(name, "is not a variable: a name has no '=', and neither name nor value a NUL")
        env[name] = value or ""
    return env


def _retries(section: Section) -> Retries:
    """A number of retries, or a mapping whose `attempts` counts the first start, as `Retry` of AFL does."""
    inner = None
    if not is_scalar(section.node_of("retries")):
        inner = section.section("retries", "a count, or attempts, backoff, factor, max")
    if inner is None:
        count = whole(section, "retries", 0) if is_scalar(section.node_of("retries")) else None
        return Retries(attempts=1 + (count or 0))
    inner.allow(("attempts", "backoff", "factor", "max"), "retries")
    factor = inner.value("factor", int, float)
    if factor is not None and factor < 1:
        inner.problem("factor", f"is {factor}; expected a number of at least 1")
        factor = None
    found = {
        "attempts": whole(inner, "attempts", 1) if "attempts" in inner else 2,
        "backoff": duration(inner, "backoff"),
        "factor": None if factor is None else float(factor),
        "max": duration(inner, "max"),
    }
    given: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
    return Retries(**given)


def _always(section: Section) -> bool:
    when: str | None = section.value("when", str)
    if when not in (None, "always", "success"):
        section.problem("when", f"is {when!r}; expected always or success")
    return when == "always"


def _check_placeholders(section: Section, task: Task, params: list[str]) -> None:
    """Parameters are allowed in arguments and variables only, must be declared, and must not be a shell's program."""
    for way, text in _texts(task):
        for name in PLACEHOLDER.findall(text):
            if name not in params:
                known = suggestion(name, params) or "; the workflow declares no params"
                section.problem(
                    way.split(".")[0], f"{way} names the parameter {name!r}, which is none{known}"
                )
            if not way.startswith(("config.args", "env.")):
                section.problem(way.split(".")[0], f"{way} holds a parameter; they belong into args and env")
    if isinstance(task.config, (Subprocess, Ray)) and task.config.cmd:
        index = _read_by_shell((task.config.cmd, *task.config.args))
        if index is not None:
            section.problem(
                "config",
                f"config.args[{index - 1}] would give a parameter to a shell as its program; "
                "pass it as an argument after it, or in env",
            )


def _texts(task: Task) -> Iterable[tuple[str, str]]:
    config = task.config
    for name in ("cmd", "function", "script_path", "working_directory", "uv_path", "address"):
        if isinstance(text := getattr(config, name, None), str):
            yield f"config.{name}", text
    if isinstance(config, UvPython):
        yield from ((f"config.packages[{index}]", text) for index, text in enumerate(config.packages or ()))
    else:
        yield from ((f"config.args[{index}]", text) for index, text in enumerate(config.args))
    yield from ((f"env.{name}", text) for name, text in task.env.items())
    yield "working_directory", task.working_directory or ""


def _read_by_shell(words: Sequence[str]) -> int | None:
    """Index of a word with a parameter that a shell reads as option or program; `env sh -c` is a shell too."""
    for index, word in enumerate(words):
        if os.path.basename(word) in _SHELLS:
            return _parameter_before_program(words, index + 1)
    return None


def _parameter_before_program(words: Sequence[str], index: int) -> int | None:
    """Options come first; the first other word is the program or script, and the rest are its arguments."""
    while index < len(words):
        if PLACEHOLDER.search(words[index]):
            return index
        if words[index][:1] not in ("-", "+"):
            return None
        index += 2 if _OPTION_WITH_VALUE.fullmatch(words[index]) else 1
    return None
