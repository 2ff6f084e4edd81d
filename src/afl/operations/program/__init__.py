"""Sources and workflows before they run: compile, format, publish, submit."""
