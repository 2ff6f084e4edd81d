"""Figures, not tests: every line is a ratio against something measured in the same run, with the bar it must meet."""
