"""The principal: stores runs and logs, assigns runs to agents, schedules workflows, and detects lost agents."""
