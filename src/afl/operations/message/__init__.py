"""Agents that send messages.

coordination  queues, agents, circuit breakers and dead letters on Redis
message_view  the same as plain data; message_search: agents and letters by a part of their name
"""
