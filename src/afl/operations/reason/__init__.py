"""Why something does not move: `why` answers for an id, every reason has a code."""
