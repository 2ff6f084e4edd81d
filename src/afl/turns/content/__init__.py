"""Files of turns: what people and tools give, and the blob store that has what is too large for a card."""
