"""AgentFlow: a durable runtime for agents."""

__version__ = "0.1.0"
