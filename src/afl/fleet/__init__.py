"""Fleet: a principal that keeps and schedules workflows of processes, and agents that run them."""
