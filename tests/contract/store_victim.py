"""A process that holds all that can be held, says so, and waits to be killed."""

from __future__ import annotations

import sys

from store_records import LONG, RUN

from afl.runtime.store import open_store


def main(url: str) -> None:
    store = open_store(url)
    task = store.claim_task(["F"], lock_ms=LONG)
    run = store.take_run(RUN, lease_ms=LONG)
    assert task is not None
    store.start_tasks([task])
    assert run is not None
    assert store.acquire_lock("named", LONG, owner=store.owner_id)
    print(store.owner_id, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
