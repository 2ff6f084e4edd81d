"""How long leases last, and how many holders may die; one rule for runs, tasks, turns, DAG runs and messages.

All times are the store's own (`Database.now()`), never a client's.
"""

LEASE_MS = 60_000  # of tasks and running turns: a handler that blocks the interpreter is slow, not dead
RUN_LEASE_MS = 10_000  # of a run's evaluator: evaluation is pure and fenced, so that others may repeat it
MAX_DELIVERIES = 5  # how many holders may die on one thing
