"""Ways to write an analysis out: one format a module."""
