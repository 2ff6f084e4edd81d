"""The principal: keeps runs and logs, hands runs to agents, schedules workflows, and notices when an agent is lost."""
