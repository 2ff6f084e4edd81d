"""Runs as people see and steer them.

runs          start, resume and find them
run_list      on one line each; run_summary: one at a glance; badges: what is open
run_view      a run with its steps; run_tree: as a tree, foreach folded; step_work: the tasks behind them
run_graph     as a graph: graph_plan is the program's own, graph_layout where its boxes go
run_timeline  over time
step_view     a step with all that is known of it; place_view: the steps of one place; excerpts: lines of a source
run_log       what a run logged; run_end: waiting for its end; following: both at a desk; pulse: whether it changed
control       retry, cancel, pause, unpause, continue a step
spending      what models used; retention: removing old runs
"""
