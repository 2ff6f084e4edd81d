"""Runs: list, tree, graph, timeline, steps, attempts, log, control."""
