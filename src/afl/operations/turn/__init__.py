"""Agents that converse: send, wait, list, transcripts, reasons, workers."""
