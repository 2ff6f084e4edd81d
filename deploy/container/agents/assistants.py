"""Agents of this installation that converse; `afl turns worker` serves them."""

from __future__ import annotations

from afl.turns import agent

guide = agent("guide", "You help people to find their way.")
