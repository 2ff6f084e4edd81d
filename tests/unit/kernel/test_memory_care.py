"""What a process does about freed memory and garbage, each tried in a process of its own: it cannot be undone."""

from __future__ import annotations

import subprocess
import sys
import textwrap

HEAP = """
    import ctypes
    from afl.kernel.heap import keep_freed_memory
    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p

    def given_back() -> int:
        blocks = [libc.malloc(65536) for _ in range(20)]
        top = libc.sbrk(0)
        for block in reversed(blocks):
            libc.free(ctypes.c_void_p(block))
        return top - libc.sbrk(0)

    before = given_back()
    keep_freed_memory()
    keep_freed_memory()
    given_back()
    print(before > 0, given_back())
"""
COLLECTOR = """
    import gc, threading
    from afl.kernel import collector
    thread = threading.Thread(target=collector.settle)
    thread.start()
    thread.join()
    beside = gc.get_freeze_count()
    collector.settle()
    settled = gc.get_freeze_count()
    kept = [[] for _ in range(1000)]
    collector.settle()
    print(beside, settled > 0, gc.get_freeze_count() <= settled)
"""


def said(code: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_freed_memory_is_kept_for_the_next_statement() -> None:
    assert said(HEAP) == "True 0"


def test_only_the_main_thread_settles_a_process_and_once() -> None:
    assert said(COLLECTOR) == "0 True True"
