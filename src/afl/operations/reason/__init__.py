"""Why something is stuck: `why` answers for an id, every reason has a code."""
