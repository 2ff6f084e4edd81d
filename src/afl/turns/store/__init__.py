"""The tables of turns, and the transitions over them."""
