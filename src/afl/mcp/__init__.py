"""The MCP server: the operations of AgentFlow as tools and resources of the Model Context Protocol.

Everything goes through a desk, so a model may do what its caller may do, and what it does is in the audit log.
"""
