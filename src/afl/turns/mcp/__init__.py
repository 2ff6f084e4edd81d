"""MCP servers as tools of agents: `agent(..., mcp=[McpServer(command=["uvx", "mcp-server-git"])])`."""
