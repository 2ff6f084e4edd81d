"""Task handlers: functions and models that do the work of event facets, and what they are given."""
