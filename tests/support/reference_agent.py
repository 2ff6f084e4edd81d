"""An agent of the reference, written from what is documented of it. It shares no code with ours.

It has its own sockets and its own reader, which accepts the documented keys and task kinds and nothing else: an answer
that it cannot read ends its work loop, as it ends the reference's.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Self

import zmq

SOH = "\x01"
_TEXT, _OPTIONAL = (str,), (str, type(None))
_WORKFLOW = {
    "id": _TEXT,
    "name": _TEXT,
    "description": _OPTIONAL,
    "path": _TEXT,
    "dag": (dict,),
    "cron": _OPTIONAL,
    "start_time": _OPTIONAL,
}
_DAG = {
    "name": _TEXT,
    "task_id_node_ix_map": (dict,),
    "task_map": (dict,),
    "inner": (dict,),
    "first_tasks": (list,),
}
_INNER = {"nodes": (list,), "node_holes": (list,), "edge_property": _TEXT, "edges": (list,)}
_TASK = {
    "name": _TEXT,
    "description": _OPTIONAL,
    "depends": (list, type(None)),
    "config": (dict,),
}
_KINDS = {
    "Subprocess": {"cmd": _TEXT, "args": (list,)},
    "UvPython": {
        "script_path": _TEXT,
        "is_uv_project": (bool, type(None)),
        "packages": (list, type(None)),
        "uv_path": _OPTIONAL,
        "working_directory": _OPTIONAL,
    },
}


class Unreadable(Exception):
    """The reference's parser would not have read this."""


@dataclass(frozen=True)
class ReferenceTask:
    name: str
    depends: tuple[str, ...]
    argv: tuple[str, ...]


@dataclass(frozen=True)
class ReferenceWorkflow:
    id: str
    name: str
    tasks: Mapping[str, ReferenceTask]


def read_workflow(value: Any) -> ReferenceWorkflow:
    """A workflow of the wire; Unreadable for a key, a task kind or a value that is not documented."""
    _check(value, _WORKFLOW, "workflow")
    dag = value["dag"]
    _check(dag, _DAG, "dag")
    _check(dag["inner"], _INNER, "inner")
    tasks = {task_id: _read_task(task_id, task) for task_id, task in dag["task_map"].items()}
    first = [task_id for task_id, task in tasks.items() if not task.depends]
    indexes = dag["task_id_node_ix_map"]
    edges = [[indexes[name], indexes[task_id], 0] for task_id, task in tasks.items() for name in task.depends]
    if sorted(dag["first_tasks"]) != sorted(first) or sorted(dag["inner"]["edges"]) != sorted(edges):
        raise Unreadable(f"the graph of {value['id']} is not that of its tasks")
    return ReferenceWorkflow(value["id"], value["name"], tasks)


def read_listing(payload: str) -> dict[str, ReferenceWorkflow]:
    """The payload of LSWORKFLOWS."""
    return {name: read_workflow(value) for name, value in json.loads(payload).items()}


def _read_task(task_id: str, value: Any) -> ReferenceTask:
    _check(value, _TASK, f"task {task_id}")
    if len(value["config"]) != 1 or not value["config"].keys() <= _KINDS.keys():
        raise Unreadable(f"task {task_id}: unknown variant {list(value['config'])}")
    [(kind, body)] = value["config"].items()
    _check(body, _KINDS[kind], f"{kind} of task {task_id}")
    if kind == "Subprocess":
        argv = (body["cmd"], *body["args"])
    else:
        packages = [] if body["is_uv_project"] else body["packages"] or []
        argv = ("uv", "run", *(word for each in packages for word in ("--with", each)), body["script_path"])
    if not all(isinstance(word, str) for word in argv):
        raise Unreadable(f"task {task_id}: {argv} is not all text")
    return ReferenceTask(value["name"], tuple(value["depends"] or ()), argv)


def _check(value: Any, keys: Mapping[str, tuple[type, ...]], where: str) -> None:
    if not isinstance(value, dict) or value.keys() != keys.keys():
        raise Unreadable(f"{where} has other keys than {sorted(keys)}: {value}")
    for key, types in keys.items():
        if type(value[key]) not in types:
            raise Unreadable(f"{key} of {where} is {value[key]!r}")


class ReferenceAgent:
    """Fetches and runs workflows from `start` to `stop`. `failure` says what ended it before."""

    def __init__(
        self, host: str, port: int, logs_port: int, agent_id: str, *, limit: int = 5, beat_s: float = 1.0
    ) -> None:
        self.agent_id = agent_id
        self.failure: Exception | None = None
        self.ran: list[ReferenceWorkflow] = []
        self._api, self._logs = f"tcp://{host}:{port}", f"tcp://{host}:{logs_port}"
        self._beat_s = beat_s
        self._context = zmq.Context()
        self._stopping = threading.Event()
        self._numbers = itertools.count()
        self._slots = threading.Semaphore(limit)
        self._runs = ThreadPoolExecutor(limit)
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,)) for work in (self._work, self._beat)
        ]

    def __enter__(self) -> Self:
        self._retried("REGISTERAGENT", self.agent_id)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._runs.shutdown()
        self._context.destroy(linger=0)

    def ask(self, *tokens: str) -> str | None:
        """The reply on a socket of its own; None when none came in time."""
        with self._context.socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(self._api)
            socket.send(SOH.join(tokens).encode())
            return socket.recv().decode() if socket.poll(3_000) else None

    def workflows(self) -> dict[str, ReferenceWorkflow]:
        """What a terminal page of the reference would list."""
        kind, _, payload = self._retried("LSWORKFLOWS").partition(SOH)
        assert kind == "SUCCESS", kind
        return read_listing(payload)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.failure = error

    def _retried(self, *tokens: str) -> str:
        for _ in range(20):
            reply = self.ask(*tokens)
            if reply is not None:
                return reply
        raise Unreadable("connection with principal has been lost")

    def _beat(self) -> None:
        while not self._stopping.wait(self._beat_s):
            self.ask("REGISTERAGENT", self.agent_id)

    def _work(self) -> None:
        while not self._stopping.is_set():
            if not self._slots.acquire(timeout=0.1):
                continue
            reply = self._retried("FETCHWORKFLOW", self.agent_id)
            kind, _, payload = reply.partition(SOH)
            if kind == "SUCCESS":
                workflow = read_workflow(json.loads(payload))
                self.ran.append(workflow)
                self._runs.submit(self._guarded, lambda workflow=workflow: self._run(workflow))
                continue
            self._slots.release()
            if reply != "OK":
                raise Unreadable(reply)
            self._stopping.wait(0.1)

    def _run(self, workflow: ReferenceWorkflow) -> None:
        instance = self._name("run")
        self._say_run(workflow, instance, "RUNNING")
        failed = _walk(workflow.tasks, lambda task_id: self._run_task(workflow, instance, task_id))
        self._slots.release()
        self._say_run(workflow, instance, "FAILED" if failed else "COMPLETED")

    def _run_task(self, workflow: ReferenceWorkflow, instance: str, task_id: str) -> bool:
        """Whether it ended well."""
        task, task_instance = workflow.tasks[task_id], self._name("task")
        self._say_task(task_id, task_instance, instance, "PENDING")
        self._say_task(task_id, task_instance, instance, "RUNNING")
        with self._context.socket(zmq.PUSH) as logs:
            logs.setsockopt(zmq.LINGER, 3_000)
            logs.connect(self._logs)
            with subprocess.Popen(task.argv, stdout=subprocess.PIPE, text=True, errors="replace") as child:
                assert child.stdout is not None
                for line in child.stdout:
                    at = str(int(time.time() * 1000))
                    fields = (workflow.id, workflow.name, instance, task.name, task_instance, at, "INFO")
                    logs.send(SOH.join((*fields, f"STDOUT {line.rstrip()}")).encode())
        code = child.returncode
        self._say_task(task_id, task_instance, instance, "FAILED" if code else "COMPLETED")
        return code == 0

    def _say_run(self, workflow: ReferenceWorkflow, instance: str, status: str) -> None:
        self.ask("AGENTWORKFLOWSTATUS", self.agent_id, workflow.id, instance, status)

    def _say_task(self, task_id: str, task_instance: str, instance: str, status: str) -> None:
        self.ask("AGENTTASKSTATUS", self.agent_id, task_id, task_instance, instance, status)

    def _name(self, kind: str) -> str:
        return f"{kind}-{self.agent_id.rpartition('/')[2].lower()}-{next(self._numbers)}"


def _walk(tasks: Mapping[str, ReferenceTask], run: Callable[[str], bool]) -> bool:
    """Run the tasks in parallel, each after all it depends on; whether one failed. Dependents of that are skipped."""
    done: dict[str, bool] = {}
    running: dict[Future[bool], str] = {}
    with ThreadPoolExecutor(max(1, len(tasks))) as pool:
        while len(done) < len(tasks):
            for task_id, task in tasks.items():
                if task_id in done or task_id in running.values():
                    continue
                if any(done.get(name) is False for name in task.depends):
                    done[task_id] = False
                elif all(name in done for name in task.depends):
                    running[pool.submit(run, task_id)] = task_id
            for ended in wait(running, return_when=FIRST_COMPLETED)[0] if running else ():
                done[running.pop(ended)] = ended.result()
    return not all(done.values())
