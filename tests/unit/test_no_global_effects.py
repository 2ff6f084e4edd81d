"""A library leaves its user's process as it is: the collector, the allocator and signal handlers."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

SCRIPT = """
    import ctypes, gc, signal, sys, threading
    from afl.language import compile_source
    from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
    from afl.runtime.evaluator import Evaluator
    from afl.runtime.store import open_store

    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p

    def returned_to_the_system() -> bool:
        blocks = [libc.malloc(65536) for _ in range(400)]  # more than glibc keeps after a large block
        top = libc.sbrk(0)
        for block in reversed(blocks):
            libc.free(ctypes.c_void_p(block))
        return top > libc.sbrk(0)

    def state() -> tuple:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        return gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), handlers, returned_to_the_system()

    SOURCE = '''namespace ns {
        event facet Work(n: Long) => (m: Long)
        workflow W(xs: [Long]) => (ms: [Long]) andThen foreach x in $.xs { w = Work(x) yield W(ms = [w.m]) }
    }'''
    before, within = state(), []

    def work(payload):
        within.append(gc.isenabled())
        if len(within) == 3:
            poller.stop()
        return {"m": payload["n"]}

    store = open_store(sys.argv[1])
    evaluator = Evaluator(store)
    program = compile_source(SOURCE).program
    evaluator.execute(program["namespaces"][0]["workflows"][0], {"xs": [1, 2, 3]}, program)
    poller = AgentPoller(store, evaluator, AgentPollerConfig(poll_interval_ms=20))
    poller.register("ns.Work", work)
    poller.start()
    store.close()
    print(within == [True] * 3, before == state(), before[-1])
"""


def test_the_collector_the_allocator_and_signals_are_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), f"sqlite:///{tmp_path}/afl.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("True True True", "")
