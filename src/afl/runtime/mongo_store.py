"""The MongoDB store."""
