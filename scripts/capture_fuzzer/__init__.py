"""Damages captures on purpose and looks at what the analysis makes of them.

========  ==============================================================
seeds     captures to begin with, and their key logs
mutate    damage: of bytes, of containers, of packets, of streams
check     one analysis with all its outputs, and what must hold of it
========  ==============================================================
"""
