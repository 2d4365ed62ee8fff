"""The tables: one schema file a table, every column with its unit and meaning.

Facts only. Nothing here parses, decides or prints.
"""
