"""The import name of the coordination API; see afl.coordination."""
