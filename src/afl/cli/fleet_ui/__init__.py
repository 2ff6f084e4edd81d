"""The terminal interface of the fleet."""
