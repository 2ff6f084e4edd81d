"""Agents of Pydantic AI as agents of turns: `serve(agent)`."""
