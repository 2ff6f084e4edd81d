"""DAGs of processes on a fleet of agents: workflows, runs, agents, log lines, processes."""
