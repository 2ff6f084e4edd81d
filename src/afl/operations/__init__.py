"""What a person can do with AgentFlow, as typed functions. Faces (cli, dashboard, mcp) render what these return.

program    sources and workflows before they run: compile, format, inputs, library, submission
run        runs as people see and steer them: list, tree, graph, timeline, step, log, control
reason     why something does not move: every reason with its code
people     what waits for a person: approvals, typed forms, answers
work       who does the work: servers, tasks, schedules, the service of a process and what it offers and hosts
turn       agents that converse
fleet      DAGs of processes on a fleet of agents
message    queues, agents, circuit breakers and dead letters on Redis

client     calls operations by their function on a store, or (http_client) on a server; catalogue is the
           table of all of them, operation one row, serialization and problems what goes over HTTP,
           bounds what is too much
access     roles, users, tokens; rate_limit: token checks with a limit on failures; user_file: users in the
           configuration file; audit: who did what
search     what a part of an id or name may mean
metrics    figures of a store and of the parts beside it, for Prometheus
spans      times and durations as people write them
servers    the local servers
web_server what every web server keeps to: limits of time for a request
"""
