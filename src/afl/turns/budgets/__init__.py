"""Budgets of turns, sessions, agents and days: reserved before a model is called, settled after it."""
