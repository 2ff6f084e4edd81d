"""The MCP server: the operations of AgentFlow as tools and resources of the Model Context Protocol.

Every call goes through a client of the operations: a model has the role of its caller, and its actions are in the
audit log.
"""
