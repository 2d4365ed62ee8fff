"""The command line: one command a module.

Nothing heavy is imported before a command runs, so that ``--help`` is quick.
"""
