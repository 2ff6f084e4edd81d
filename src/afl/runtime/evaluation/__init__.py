"""The evaluation of one run: its steps in memory, the state changers, and what one commit contains."""
