"""How the tasks of a workflow become processes: subprocesses, uv scripts, programs and functions on a Ray cluster."""
