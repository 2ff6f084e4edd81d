"""Executors of tasks: subprocesses, uv scripts, programs and functions on a Ray cluster."""
