"""Messages of agents on Redis: queues, registered agents, circuit breakers, dead letters."""
