"""How each preset was trained: one file for each, with a `RECIPE`."""
