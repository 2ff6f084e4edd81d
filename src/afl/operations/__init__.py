"""What a person can do with AgentFlow, as typed functions. Faces (cli, dashboard, mcp) render what these return.

sources       files and texts to compile
compilation   sources -> findings and a compiled program
formatting    sources in the standard form
agents        a module's handlers; offers: all that modules offer; hosting: the bridges and agents of a process
inputs        the inputs of a run, from text and files
runs          start, resume and find runs
embedding     one call for programs that use AgentFlow as a library
submission    a run for whichever server takes it; source_text: from a text, library: from a workflow known by name
run_tree      a run's steps as a tree, foreach folded; step_work: the tasks behind them
run_graph     a run as a graph: graph_plan is the program's own, graph_layout where its boxes go
run_timeline  a run over time; run_summary: at a glance; badges: what is open; pulse: whether something changed
step_view     a step with all that is known of it; place_view: the steps of one place; excerpts: lines of a source
starting      the form of a source's workflow; program_shelf: programs that are looked at again
run_list      runs on one line each; task_queue: tasks; workers: servers
run_log       what a run logged; run_end: waiting for its end
control       retry, cancel, pause, unpause
approvals     what waits for a person, and the answers; questions: such tasks as people see them;
              approval_history: those that are over
forms         typed forms of facets and workflows, and what is written into them
timetable     schedules
retention     removing old runs
subjects      what an id means; search: what a part of an id or name may mean (fleet_search, message_search: there)
why           why something does not move; reasons has the codes, the modules *_reasons, run_standing and
              staffing find them, scene is what they look at
coordination  queues, agents, circuit breakers and dead letters on Redis
fleet         workflows, runs, agents and log lines of a principal; fleet_dag: a run's tasks as a tree;
              fleet_follow: a run as it goes on; fleet_log: its last lines; fleet_overview: all at a glance;
              fleet_setup: first folder, keys, settings; fleet_processes: principal and agent
turns         agents that converse: send, wait, list, stop; turn_view: a turn as a transcript; turn_reasons: why it does
              not move; turn_events: what is told meanwhile; turn_module, turn_service: workers and conversations
servers       the local servers
desk          where faces ask for operations, by their function: at a store, or (remote) at a server; catalogue is the
              table of all of them, operation one row, wire and problems what goes over HTTP, following how to wait
access        roles, users, tokens; user_file: users in the configuration file; audit: who did what
"""
