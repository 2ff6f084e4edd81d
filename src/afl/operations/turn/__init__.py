"""Agents that converse.

turns         send, wait, list, stop; turn_wait: waiting through a client
turn_view     a turn as a transcript; turn_events: what is told meanwhile; turn_reasons: why it does not move
turn_module   the agents and tools of a module; turn_service: workers and conversations
"""
