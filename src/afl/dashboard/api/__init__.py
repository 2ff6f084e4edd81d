"""The HTTP API under /api/v1, made from the catalog of operations."""
