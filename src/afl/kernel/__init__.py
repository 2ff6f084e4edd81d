"""The kernel: what every part of AgentFlow stands on, and nothing above it."""
