"""Sessions: conversations with ids of their own, whose turns follow each other."""
