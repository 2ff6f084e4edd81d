"""The primitives, one file each. Import them from there; `L0Engine` has all of them as methods."""
